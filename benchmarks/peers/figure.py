"""The figure of the performance page: each peer relative to ours, program by program."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

GREY = "#808080"  # of text and lines: readable on a white page and on a dark one
MARKS = {"JAX": ("o", "#e07b00"), "PyTorch": ("s", "#3b8ede")}


def draw(results: dict, path: Path) -> None:
    """Write the figure as SVG, transparent; the same results give the same file."""
    rows = results["rows"][::-1]
    labels = [f"{row['name']}  {' × '.join(map(str, row['size']))}" for row in rows]
    style = {"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 9}
    style |= dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY
    )
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.5, 0.24 * len(rows) + 1.0), layout="constrained")
        axes = figure.subplots()
        for peer, (mark, colour) in MARKS.items():
            ratios = [row["peers"][peer]["ratio"] for row in rows]
            axes.plot(ratios, range(len(rows)), mark, color=colour, label=peer)
        axes.axvline(1.0, color=GREY)
        axes.grid(axis="y", color=GREY, alpha=0.25)
        axes.set_xscale("log")
        axes.set_yticks(range(len(rows)), labels)
        axes.set_xlabel("time / ours: right of the line ours is faster")
        axes.patch.set_alpha(0.0)
        axes.legend(loc="upper right", framealpha=0.0)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
