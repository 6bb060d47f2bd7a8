"""Run the forward derivative of a function of an `.ll` text, and compare with finite differences.

As `harness`, whose arguments and memory these are: for random tangents of everything the function
starts from (float parameters and the memory of Duplicated ones), the tangents of everything it
leaves behind. With a width, every lane has tangents of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.types import FloatType
from activerules.testing.schemes import central_fdm
from tests.ir.harness import Compiled, Struct, _copies, _ctype, _floats, _passed, _shim

__all__ = ["Const", "Duplicated", "Struct", "check_forward", "push", "pushed"]


def pushed(activities: Sequence[type]) -> list[type]:
    """The activities of a reverse derivative, for forward mode."""
    return [Duplicated if a is Active else a for a in activities]


def check_forward(
    text: str,
    function: str,
    activities: Sequence[type],
    args: Sequence[Any],
    *,
    width: int = 1,
    opt: int | None = 2,
    seed: int = 0,
    tolerance: float = 1e-6,
) -> str:
    """Assert that the tangents are what finite differences say, and memory what the primal leaves.

    Gives the text that `differentiate` returned.
    """
    activities = pushed(activities)
    derivative = differentiate(text, function, activities, mode="forward", width=width)
    compiled = Compiled(derivative, opt)
    rng = np.random.default_rng(seed)
    directions = [_direction(activities, args, rng) for _ in range(width)]
    after, mine, shadows = _copies(args), _copies(args), [d[1] for d in directions]
    primal = compiled.function(function)
    primal(*map(_passed, after))
    expected = [
        _expected(primal, activities, args, direction, compiled.module_functions[function])
        for direction in directions
    ]
    shadows = [_copies(s) for s in shadows]
    tangents = [(scalars, memory) for (scalars, _), memory in zip(directions, shadows, strict=True)]
    result = push(compiled, function, activities, mine, tangents)
    for a, b in zip(_floats(after), _floats(mine), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, err_msg="memory the derivative leaves behind")
    single = _is_single(args, compiled.module_functions[function])
    limit = max(tolerance, 2e-2 if single else 0.0)
    for lane, (slope, slopes) in enumerate(expected):
        if slope is not None:
            np.testing.assert_allclose(
                result[lane], slope, rtol=limit, atol=limit, err_msg=f"result, lane {lane}"
            )
        for view, wanted in zip(_floats(shadows[lane]), slopes, strict=True):
            np.testing.assert_allclose(
                view, wanted, rtol=limit, atol=limit, err_msg=f"shadow, lane {lane}"
            )
    return derivative


def push(
    compiled: Compiled,
    function: str,
    activities: Sequence[type],
    args: Sequence[Any],
    tangents: Sequence[tuple[dict[int, float], list[Any]]],
) -> list[float]:
    """Call `<function>.forward` by its documented signature; gives the tangents of the result.

    One entry of `tangents` per lane: those of floats by their position, and the shadows of
    Duplicated memory in order.
    """
    f = compiled.module_functions[function]
    passed: list[Any] = []
    memory = 0
    for k, value in enumerate(args):
        passed.append(_passed(value))
        if activities[k] is not Duplicated:
            continue
        if f.arguments[k].type.is_float:
            passed += [scalars[k] for scalars, _ in tangents]
        else:
            passed += [_passed(shadows[memory]) for _, shadows in tangents]
            memory += 1
    name = f"{function}.forward"
    if len(tangents) == 1:
        return [compiled.function(name)(*passed)]
    if not f.result.is_float:
        compiled.function(name)(*passed)
        return []
    result = (_ctype(f.result) * len(tangents))()
    _shim(compiled, compiled.module_functions[name], len(passed))(ctypes.addressof(result), *passed)
    return list(result)


def _direction(
    activities: Sequence[type], args: Sequence[Any], rng: np.random.Generator
) -> tuple[dict[int, float], list[Any]]:
    """Random tangents of the floats, and random shadows."""
    floats = {
        k: float(rng.normal())
        for k, (a, x) in enumerate(zip(activities, args, strict=True))
        if a is Duplicated and isinstance(x, float)
    }
    memory = [
        x
        for a, x in zip(activities, args, strict=True)
        if a is Duplicated and not isinstance(x, float)
    ]
    shadows = _copies(memory)
    for view in _floats(shadows):
        view[...] = rng.normal(size=view.shape)
    return floats, shadows


def _is_single(args, f) -> bool:
    """Whether what is differenced is rounded to single precision."""
    return any(v.dtype == np.float32 for v in _floats(args)) or any(
        a.type == FloatType("float") for a in f.arguments
    )


def _expected(primal, activities, args, direction, f) -> tuple[float | None, list[np.ndarray]]:
    """The tangents of the result and of the memory left behind, by central differences."""
    scalars, shadows = direction
    duplicated = [
        k for k, a in enumerate(activities) if a is Duplicated and not isinstance(args[k], float)
    ]
    single = _is_single(args, f)

    def outputs(t: float) -> np.ndarray:
        values = _copies(args)
        for k, dx in scalars.items():
            values[k] = args[k] + t * dx
        memory = _floats([values[k] for k in duplicated])
        for view, dx in zip(memory, _floats(shadows), strict=True):
            view += t * dx
        result = primal(*map(_passed, values))
        left = [np.ravel(v).astype(float) for v in _floats([values[k] for k in duplicated])]
        return np.concatenate([*left, [result if f.result.is_float else 0.0]])

    slopes = np.array(
        [
            central_fdm(3).estimate(lambda t: outputs(t)[n], 0.0, eps=1e-7 if single else None)[0]
            for n in range(len(outputs(0.0)))
        ]
    )
    views, start = [], 0
    for view in _floats(shadows):
        views.append(slopes[start : start + view.size].reshape(view.shape))
        start += view.size
    return (slopes[-1] if f.result.is_float else None), views
