"""Run a gradient with several cotangents at once, and compare with one gradient per cotangent."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import (
    Active,
    Compiled,
    Duplicated,
    _copies,
    _ctype,
    _floats,
    _passed,
    _shim,
    compile_text,
)


def check_lanes(
    text: str,
    function: str,
    activities: Sequence[type],
    args: Sequence[Any],
    width: int,
    opt: int | None = 2,
) -> None:
    """Assert that every lane has what a gradient of its own gives, and the primal runs once."""
    alone = compile_text(differentiate(text, function, list(activities)), opt)
    together = compile_text(differentiate(text, function, list(activities), width=width), opt)
    rng = np.random.default_rng(width)
    own = [args[k] for k, a in enumerate(activities) if a is Duplicated]
    lanes = [_copies(own) for _ in range(width)]
    for shadows in lanes:
        for view in _floats(shadows):
            view[...] = rng.normal(size=view.shape)
    seeds = rng.normal(size=width).tolist()
    expected = [_copies(shadows) for shadows in lanes]
    numbers = []
    for shadows, seed in zip(expected, seeds, strict=True):
        after = _copies(args)
        numbers.append(_run(alone, function, after, activities, [shadows], [seed]))
    mine = _copies(args)
    found = _run(together, function, mine, activities, lanes, seeds)
    for a, b in zip(_floats(after), _floats(mine), strict=True):
        np.testing.assert_array_equal(b, a, err_msg="memory the gradient leaves behind")
    near = {"rtol": 1e-5, "atol": 1e-6} if "float" in text else {"rtol": 1e-11, "atol": 1e-13}
    for lane in range(width):
        np.testing.assert_allclose(found[lane::width], numbers[lane], **near)
        for a, b in zip(_floats(expected[lane]), _floats(lanes[lane]), strict=True):
            np.testing.assert_allclose(b, a, err_msg=f"shadow in lane {lane}", **near)


def _run(
    compiled: Compiled,
    function: str,
    args: Sequence[Any],
    activities: Sequence[type],
    lanes: Sequence[Sequence[Any]],
    seeds: Sequence[float],
) -> list[float]:
    f = compiled.module_functions[function]
    g = compiled.module_functions[f"{function}.gradient"]
    rows = iter(list(zip(*lanes, strict=True)))
    values: list[Any] = []
    for value, activity in zip(args, activities, strict=True):
        values.append(_passed(value))
        if activity is Duplicated:
            values += map(_passed, next(rows))
    if f.result.is_float:
        values += seeds
    active = [f.arguments[k].type for k, a in enumerate(activities) if a is Active]
    if not active:
        compiled.function(g.name.strip('"'))(*values)
        return []
    fields = [_ctype(t) for t in active for _ in lanes]

    class Derivatives(ctypes.Structure):
        _fields_ = [(f"d{k}", t) for k, t in enumerate(fields)]

    result = Derivatives()
    _shim(compiled, g, len(values))(ctypes.addressof(result), *values)
    return [getattr(result, f"d{k}") for k in range(len(fields))]
