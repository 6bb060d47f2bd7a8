"""The programs of benchmarks/peers have the derivatives that JAX computed, which needs no JAX."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import programs, values

EXPECTED = json.loads(values.VALUES.read_text())


def leaves(result):
    """The numbers and arrays of a result, in order."""
    if isinstance(result, tuple):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


@pytest.mark.parametrize("name", EXPECTED)
def test_derivatives_are_those_of_jax(name):
    found = leaves(programs.PROGRAMS[name](*programs.arguments(name, values.SIZES[name])))
    for ours, theirs in zip(found, EXPECTED[name], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_every_program_is_compared_with_every_peer():
    names = set(programs.PROGRAMS)
    assert names == set(programs.SIZES) == set(values.SIZES) == set(EXPECTED)
    folder = Path(programs.__file__).parent
    for peer in ("in_jax.py", "in_torch.py"):
        lines = (folder / peer).read_text().splitlines()
        defined = {line.split("(")[0].split(" ")[-1] for line in lines if line.startswith("def ")}
        defined |= {line.split(" = ")[0] for line in lines if " = " in line}
        assert names <= defined


def test_the_comparison_and_its_table():
    """A mismatch is an error, and a table goes between its marks."""
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    from benchmarks.peers import measure

    x = np.array([1.0, 2.0])
    assert measure.check("lse", "JAX", (1.0, x), (1.0, x)) == 0.0
    for wrong in (x + 1e-6, x * np.nan):
        with pytest.raises(ValueError, match="lse: the derivatives of Numba and JAX differ"):
            measure.check("lse", "JAX", (1.0, wrong), (1.0, x))
    peer = {"ratio": 2.0, "noise": 0.5, "first_call": 3.0, "error": 1e-15}
    row = {"name": "lse", "size": [10, 2], "milliseconds": 1.0, "first_call": 4.0}
    row["peers"] = {"JAX": peer, "PyTorch": {**peer, "ratio": 1930.0, "noise": 2.0, "error": 2e-15}}
    where = {"numba": "0", "jax": "1", "torch": "2", "processor": "any"}
    results = {"environment": where, "rounds": 3, "rows": [row]}
    page = f"before\n{measure.BEGIN}\nold\n{measure.END}\nafter\n"
    new = measure.replace_table(page, results)
    line = "| lse | 10 × 2 | 1.000 | 2.00 ± 0.50 | 1,930 ± 2 | 4.0 | 3.0 | 3.0 | 2e-15 |"
    assert line in new
    assert measure.replace_table(new, results) == new
    assert "old" not in new
    with pytest.raises(ValueError, match="must hold the lines"):
        measure.replace_table("nothing", results)


def test_the_figure_is_the_same_for_the_same_results(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.peers.figure import draw

    peers = {"JAX": {"ratio": 2.0}, "PyTorch": {"ratio": 300.0}}
    results = {"rows": [{"name": "lse", "size": [10, 2], "peers": peers}]}
    for name in ("one.svg", "other.svg"):
        draw(results, tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "other.svg").read_text()
    assert all(word in text for word in ("lse", "10 × 2", "PyTorch"))
