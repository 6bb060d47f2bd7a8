"""The examples of the gallery run, check their own results and draw; `make docs` shows them."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "gallery").glob("*.py"))


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
