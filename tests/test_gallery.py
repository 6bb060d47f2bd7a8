"""The examples of the gallery run, check their own results and draw; `make docs` shows them."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))


def test_every_example_has_its_place_in_the_gallery():
    order = runpy.run_path(str(ROOT / "docs" / "_ext" / "gallery_order.py"))["ORDER"]
    assert sorted(order) == [example.stem for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example(example):
    """In this process, where Numba and what it compiled for others are loaded."""
    text = example.read_text()
    assert sum(line.strip() != "" for line in text.splitlines()) < 80
    assert "assert" in text.partition("# Check")[2]
    plt.switch_backend("Agg")
    try:
        runpy.run_path(str(example))
        assert any(axes.has_data() for axes in plt.gcf().axes)
    finally:
        plt.close("all")
