"""`check_grads`: first and second derivatives of a function against finite differences.

The second derivatives are checked as a bilinear form. With random directions u and v, the gradient
of <grad f(x), v> along u is compared with the finite difference of <grad f(x + t u), v>; the
gradient itself is compared with finite differences of f first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import activerules as ar
from activerules.errors import RuleCheckError
from activerules.numba_ext.target.dispatchers import as_compiled
from activerules.testing.gradient import (
    FLOOR,
    UNRESOLVED,
    Check,
    arrays_of,
    compared,
    default_activities,
    precision_of,
)
from activerules.testing.numeric import (
    copied,
    directional_derivative,
    inner,
    is_differentiable,
    rand_tangent,
    require_tuple,
)
from activerules.testing.weighted import as_number, slope


def check_grads(
    f: Callable[..., Any], args: tuple[Any, ...], order: int = 2, seed: int = 0
) -> None:
    """Check the derivatives of `f` up to `order` with respect to every float and array argument.

    Arguments
        f      an `@njit` function; for order 2, one that writes into no argument. If it returns
               arrays, tuples or complex numbers, a random weighted sum of them is checked.
        args   plain values; they are copied, never written.
        order  1: reverse mode as `check_gradient`, and forward mode; 2: the Hessian, too.
        seed   of the random directions.

    Raises
        RuleCheckError   with argument, direction, found and expected value with its error estimate.
        ValueError       another order; no argument, or nothing the function returns or writes, has
                         a derivative to check; second derivatives with respect to anything but
                         floats, arrays of floats and tuples of these.
    """
    require_tuple("check_grads", args)
    if order not in (1, 2):
        raise ValueError(f"derivatives of order {order} are not checked; order is 1 or 2")
    rng = np.random.default_rng(seed)
    activities, f = default_activities(args), as_compiled(f)
    number, weights = as_number(f, args, rng)
    argnums = tuple(i for i, activity in enumerate(activities) if activity is not ar.Const)
    activities += (ar.Const,) * len(weights)
    args += weights
    check = Check(number, args, activities, np.random.default_rng(seed))
    if not check.has_output():
        raise ValueError(
            "the function writes into no array, and returns nothing that is checked: floats, "
            "complex numbers, arrays of them and tuples of these have a derivative"
        )
    check.run(trials=2)
    check_forward(number, args, argnums, rng, check.written())
    if order == 2:
        check_second(number, args, argnums, rng)


def check_forward(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    argnums: tuple[int, ...],
    rng: np.random.Generator,
    written: Sequence[bool],
) -> None:
    """Check forward mode along a random direction of the arguments at `argnums`: the tangents of
    the value and of the final contents of the arrays that are written.
    """
    tangents = tuple(rand_tangent(x, rng) if i in argnums else None for i, x in enumerate(args))
    cotangents = tuple(
        arrays_of(rand_tangent(x, rng)) if w else None for x, w in zip(args, written, strict=True)
    )

    def ends(value: Any, arrays: tuple[Any, ...]) -> float:
        number = float(value) if is_differentiable(value) else 0.0
        return number + sum(inner(c, a) for c, a in zip(cotangents, arrays, strict=True))

    def phi(*x: Any) -> float:
        return ends(f(*x), x)

    moving = tuple(map(copied, tangents))
    _, found = ar.jvp(f, tuple(map(copied, args)), moving)
    expected = directional_derivative(phi, args, tangents, eps=_eps(args))
    _compare("forward mode", f, args, ends(found, moving), *expected)


def check_second(
    f: Callable[..., Any], args: tuple[Any, ...], argnums: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Check the Hessian with respect to the arguments at `argnums` along two random directions."""
    if not all(_is_real(args[i]) for i in argnums):
        raise ValueError(
            "second derivatives are checked with respect to floats, arrays of floats and tuples "
            "of these; give order=1"
        )
    directions = tuple(rand_tangent(args[i], rng) for i in argnums)
    form = slope(f, argnums, len(args))

    def value(*x: Any) -> float:
        return form(*x, directions)

    found = ar.grad(form, argnums)(*map(copied, args), directions)
    for i, of_argument in zip(argnums, found, strict=True):
        tangents = tuple(rand_tangent(x, rng) if k == i else None for k, x in enumerate(args))
        expected = directional_derivative(value, args, tangents, eps=_eps(args))
        along = inner(of_argument, tangents[i])
        _compare(f"second derivative with respect to argument {i}", f, args, along, *expected)


def _is_real(x: Any) -> bool:
    """Whether all parts of `x` with a derivative are floats and arrays of floats."""
    if isinstance(x, tuple):
        return all(_is_real(item) for item in x if is_differentiable(item))
    return isinstance(x, float | np.floating) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def _eps(args: tuple[Any, ...]) -> float:
    return float(np.finfo(precision_of(args)).eps)


def _compare(
    what: str, f: Any, args: tuple[Any, ...], found: float, expected: Any, error: float
) -> None:
    precision = precision_of(args)
    near_zero = 1e-3 * FLOOR[precision]
    result = compared([found], float(expected), error, precision, direction=None, allowed=near_zero)
    if not (result.resolved and result.agrees):
        raise RuleCheckError(
            f"{getattr(f, '__name__', f)}: {what}: found {found:.12g}, "
            f"expected finite differences {float(expected):.12g} ± {error:.1e}",
            why="" if result.resolved else UNRESOLVED,
        )
