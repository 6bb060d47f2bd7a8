"""`check_grads`: first and second derivatives of a function against finite differences.

The second derivatives are checked as a bilinear form. With random directions u and v, the gradient
of <grad f(x), v> along u is compared with the finite difference of <grad f(x + t u), v>; the
gradient itself is compared with finite differences of f first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

import activerules as ar
from activerules.errors import RuleCheckError
from activerules.rules.written import function_from
from activerules.testing.gradient import FLOOR, SAFETY, check_gradient, precision_of
from activerules.testing.numeric import (
    directional_derivative,
    inner,
    is_differentiable,
    rand_tangent,
    shifted,
)


def check_grads(
    f: Callable[..., Any], args: tuple[Any, ...], order: int = 2, seed: int = 0
) -> None:
    """Check the derivatives of `f` up to `order` by every float and array argument.

    Arguments
        f      an `@njit` function; of order 2, one that returns a float and writes no argument.
        args   plain values; they are copied, never written.
        order  1: reverse mode as `check_gradient`, and forward mode; 2: the Hessian, too.
        seed   of the random directions.

    Raises
        RuleCheckError   argument, direction, found, expected with its error estimate.
        ValueError       another order; no argument has a derivative that would be checked; second
                         derivatives of arguments that are neither floats nor arrays of floats, nor
                         tuples of these.
    """
    if order not in (1, 2):
        raise ValueError(f"derivatives of order {order} are not checked; order is 1 or 2")
    check_gradient(f, args, seed=seed)
    rng = np.random.default_rng(seed)
    check_forward(f, args, rng)
    if order == 2:
        check_second(f, args, rng)


def check_forward(f: Callable[..., Any], args: tuple[Any, ...], rng: np.random.Generator) -> None:
    """The tangent of forward mode along one random direction of all arguments."""
    tangents = tuple(rand_tangent(x, rng) for x in args)
    _, found = ar.jvp(f, tuple(shifted(x, 0.0, None) for x in args), tangents)
    if not is_differentiable(found):
        return
    cotangent = rand_tangent(found, rng)
    expected = directional_derivative(
        lambda *x: inner(cotangent, f(*x)), args, tangents, eps=_eps(args)
    )
    _compare("forward mode", f, args, inner(cotangent, found), *expected)


def check_second(f: Callable[..., Any], args: tuple[Any, ...], rng: np.random.Generator) -> None:
    """The Hessian in two random directions."""
    places = tuple(i for i, x in enumerate(args) if is_differentiable(x))
    if not all(_is_real(args[i]) for i in places):
        raise ValueError(
            "second derivatives are checked by floats, arrays of floats and tuples of these; "
            "give order=1"
        )
    directions = tuple(rand_tangent(args[i], rng) for i in places)
    slope, fixed = _slope(f, places, _form(directions), len(args)), tuple(_leaves(directions))

    def value(*x: Any) -> float:
        return slope(*x, *fixed)

    found = ar.grad(slope, places)(*(shifted(x, 0.0, None) for x in args), *fixed)
    for i, of_argument in zip(places, found, strict=True):
        tangents = tuple(rand_tangent(x, rng) if k == i else None for k, x in enumerate(args))
        expected = directional_derivative(value, args, tangents, eps=_eps(args))
        along = inner(of_argument, tangents[i])
        _compare(f"second derivative by argument {i}", f, args, along, *expected)


# One function for all points: it is the compile that takes long.
@lru_cache(maxsize=64)
def _slope(f: Callable[..., Any], places: tuple[int, ...], form: Any, count: int) -> Any:
    """Return the compiled function `<grad f(x), v>` of the arguments of `f`, and of the leaves of
    directions `v` of this form.
    """
    leaves: list[str] = []
    terms = _terms("g", form, leaves)
    names = ", ".join([*(f"x{i}" for i in range(count)), *leaves])
    values = ", ".join(f"x{i}" for i in range(count))
    source = f"def slope({names}):\n g = gradient({values})\n return {' + '.join(terms)}"
    scope = {"gradient": ar.grad(f, places), "np": np}
    return njit(function_from(source, "slope", scope, module=__name__))


def _terms(gradient: str, form: Any, leaves: list[str]) -> list[str]:
    """The terms of the inner product of a gradient with directions, whose names go to `leaves`."""
    if isinstance(form, tuple):
        items = enumerate(form)
        return [term for k, item in items for term in _terms(f"{gradient}[{k}]", item, leaves)]
    if form == "none":
        return []
    leaves.append(f"v{len(leaves)}")
    product = f"{gradient} * {leaves[-1]}"
    return [f"np.sum({product})" if form == "array" else product]


def _form(direction: Any) -> Any:
    """What stands where in a direction: a tuple of forms, or the name of a leaf's."""
    if isinstance(direction, tuple):
        return tuple(map(_form, direction))
    if direction is None:
        return "none"
    return "array" if isinstance(direction, np.ndarray) else "number"


def _leaves(direction: Any) -> Iterator[Any]:
    """The numbers and arrays of a direction, in the order of `_terms`."""
    if isinstance(direction, tuple):
        for item in direction:
            yield from _leaves(item)
    elif direction is not None:
        yield direction


def _is_real(x: Any) -> bool:
    """Whether what has a derivative in `x` is floats and arrays of floats."""
    if isinstance(x, tuple):
        return all(_is_real(item) for item in x if is_differentiable(item))
    return isinstance(x, float | np.floating) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def _eps(args: tuple[Any, ...]) -> float:
    return float(np.finfo(precision_of(args)).eps)


def _compare(
    what: str, f: Any, args: tuple[Any, ...], found: float, expected: Any, error: float
) -> None:
    scale = max(abs(found), abs(float(expected)), 1e-3)
    if not abs(found - float(expected)) <= SAFETY * error + FLOOR[precision_of(args)] * scale:
        raise RuleCheckError(
            f"{getattr(f, '__name__', f)}: {what}: found {found:.12g}, "
            f"expected finite differences {float(expected):.12g} ± {error:.1e}"
        )
