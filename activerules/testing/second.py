"""`check_grads`: first and second derivatives of a function against finite differences.

The second derivatives are checked as a bilinear form. With random directions u and v, the gradient
of <grad f(x), v> along u is compared with the finite difference of <grad f(x + t u), v>; the
gradient itself is compared with finite differences of f first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        ValueError       another order; second derivatives of arguments that are neither floats nor
                         arrays of floats, nor tuples of these.
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
    directions = [rand_tangent(args[i], rng) for i in places]
    slope = _slope(f, places, directions, len(args))
    found = ar.grad(slope, places)(*(shifted(x, 0.0, None) for x in args))
    for i, of_argument in zip(places, found, strict=True):
        tangents = tuple(rand_tangent(x, rng) if k == i else None for k, x in enumerate(args))
        expected = directional_derivative(slope, args, tangents, eps=_eps(args))
        along = inner(of_argument, tangents[i])
        _compare(f"second derivative by argument {i}", f, args, along, *expected)


def _slope(
    f: Callable[..., Any], places: tuple[int, ...], directions: Sequence[Any], count: int
) -> Any:
    """Return the compiled function `<grad f(x), directions>` of the arguments of `f`."""
    names = ", ".join(f"x{i}" for i in range(count))
    scope: dict[str, Any] = {"gradient": ar.grad(f, places), "np": np}
    terms = [term for k, v in enumerate(directions) for term in _terms(f"g[{k}]", v, scope)]
    source = f"def slope({names}):\n g = gradient({names})\n return {' + '.join(terms)}"
    return njit(function_from(source, "slope", scope, module=__name__))


def _terms(gradient: str, direction: Any, scope: dict[str, Any]) -> list[str]:
    """The terms of the inner product of a gradient with a direction, which goes into `scope`."""
    if direction is None:
        return []
    if isinstance(direction, tuple):
        items = enumerate(direction)
        return [term for k, v in items for term in _terms(f"{gradient}[{k}]", v, scope)]
    name = f"v{len(scope)}"
    scope[name] = direction
    product = f"{gradient} * {name}"
    return [f"np.sum({product})" if isinstance(direction, np.ndarray) else product]


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
