"""The page of kinds of values: generated from its results, without a wrong cell or a crash, and
still true for a sample of cells."""

import json

import pytest

from supported.value_cells import COLUMNS, REFUSED, WORKS, measure
from supported.value_kinds import KINDS
from tests.test_docs import load

SCRIPT = load("generate_values")
RESULTS = json.loads(SCRIPT.RESULTS.read_text())
BY_TITLE = {kind.title: kind for kind in KINDS}

SAMPLE = [
    ("object", "argument"),
    ("record", "grad"),
    ("record", "Jacobian by it"),
    ("dictionary", "nested"),
    ("optional", "argument"),
    ("optional", "argument of a rule"),
]


def test_the_page_is_current():
    """`python docs/generate_values.py -` writes it without running anything."""
    assert SCRIPT.PAGE.read_text() == SCRIPT.render()


def test_every_cell_works_or_is_refused_for_a_reason():
    assert list(RESULTS) == list(BY_TITLE)
    for title, row in RESULTS.items():
        assert list(row) == list(COLUMNS)
        for column, found in row.items():
            assert found["outcome"] in (WORKS, REFUSED), f"{title}, {column}: {found}"
            if found["outcome"] == REFUSED:
                assert all(found.values()), f"{title}, {column}: {found}"


@pytest.mark.parametrize(("title", "column"), SAMPLE)
def test_a_sample_of_cells(title, column):
    assert measure(BY_TITLE[title], column) == RESULTS[title][column]
