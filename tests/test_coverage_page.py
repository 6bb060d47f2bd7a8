"""The coverage page: generated from its results, without a wrong row or a crash, and still true for
a sample of rows."""

import json
from collections import Counter

import pytest

from supported import ROWS
from supported.measure import GOOD, measure
from tests.test_docs import load

SCRIPT = load("generate_coverage")
RESULTS = json.loads(SCRIPT.RESULTS.read_text())

SAMPLE = [
    "Indexing and views: x[x > 0] = y",
    "Reductions: np.nanprod",
    "np.linalg: np.linalg.det",
    "Python: tuples: tuple, variable index",
    "math: math.gamma",
]


def test_the_page_is_current():
    """`python docs/generate_coverage.py -` writes it without running anything."""
    assert SCRIPT.PAGE.read_text() == SCRIPT.render()


def test_every_row_was_run_and_none_is_wrong():
    """A row that is wrong, crashes or was not run has no place in the page."""
    keys = [SCRIPT.key(row) for row in ROWS]
    assert not [key for key, count in Counter(keys).items() if count > 1]
    assert set(keys) == set(RESULTS)
    bad = ("wrong", "crash", "the row has no value")
    for key, outcome in RESULTS.items():
        for mode, text in outcome.items():
            assert not text.startswith(bad), f"{key}, {mode}: {text}"


@pytest.mark.parametrize("key", SAMPLE)
def test_a_sample_of_rows(key):
    row = next(row for row in ROWS if SCRIPT.key(row) == key)
    assert measure(row) == RESULTS[key]
    assert set(RESULTS[key].values()) <= set(GOOD)
