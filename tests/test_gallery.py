"""The examples of the gallery run, check their own results and draw; `make docs` shows them. The
plot of the demo shows what it should.
"""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
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


def test_the_demo_draws_the_model_at_every_step_and_what_the_gradient_buys(tmp_path):
    demo = runpy.run_path(str(ROOT / "examples" / "lotka_volterra.py"))
    years, p, histories = np.arange(1900.0, 1904.0), np.exp(demo["START"]), {"few": [3.0, 1.0]}
    histories["many"] = [3.0, 2.5, 2.0, 1.0]
    try:
        demo["draw"](tmp_path / "fit.png", years, np.full((4, 2), 20.0), p, histories)
        left, right = plt.gcf().axes
        models = [line for line in left.lines if "model" in line.get_label()]
        assert len(models) == 2
        for line in models:
            np.testing.assert_allclose(np.diff(line.get_xdata()), 1.0 / demo["STEPS_PER_YEAR"])
            assert (line.get_xdata()[0], line.get_xdata()[-1]) == (1900.0, 1903.0)
        assert [line.get_label() for line in right.lines] == ["few: 2 calls", "many: 4 calls"]
        assert all(axes.get_title() and axes.get_ylabel() for axes in (left, right))
    finally:
        plt.close("all")
