"""Directional derivatives by finite differences, and random tangents.

Independent of automatic differentiation: the numbers it is compared with, each with an estimate of
its error (`schemes`).

Values are floats, complex numbers, arrays, and tuples, lists, dictionaries, dataclasses and Numba
objects of these ("trees"); anything else (integers, strings, None) has no tangent and stays
unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import types

from activerules.annotations.containers import like_tuple
from activerules.annotations.structural import Tangent
from activerules.annotations.tangents import is_zero
from activerules.annotations.values import zeros_with_strides
from activerules.errors import ArityError, TangentMismatch
from activerules.testing.fitting_tangents import require_fitting
from activerules.testing.schemes import FiniteDifference, central_fdm
from activerules.testing.trees import (
    contents,
    entries,
    holding,
    is_object,
    is_tree,
    rand_numbers,
    rand_object,
    rebuilt,
)


def directional_derivative(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    eps: float | None = None,
    fdm: FiniteDifference | None = None,
) -> tuple[Any, float]:
    """d/dt f(args + t tangents) at t = 0, as (value, error estimate).

    `tangents` has one entry per argument, `None` for a constant one. `f` is passed copies of its
    arguments, so it may write into them. `fdm` is the scheme, by default a central one. Raises
    `TangentMismatch` for a tangent that is not of the type and shape of its argument.
    """
    require_tuple("directional_derivative", args)
    if not isinstance(tangents, tuple | list) or len(tangents) != len(args):
        given = len(tangents) if isinstance(tangents, tuple | list) else type(tangents).__name__
        raise TangentMismatch(
            f"directional_derivative: the tangents are {given}, the arguments {len(args)}",
            instead=["a tuple of one tangent per argument, None for a constant one"],
        )
    for k, (x, tangent) in enumerate(zip(args, tangents, strict=True)):
        require_fitting(f"the tangent of argument {k}", x, tangent)

    def along(t: float) -> Any:
        return f(*(shifted(x, t, v) for x, v in zip(args, tangents, strict=True)))

    return (fdm or central_fdm(3)).estimate(along, 0.0, eps=eps)


def require_tuple(check: str, args: Any) -> None:
    """Raise `ArityError` unless the arguments of a function are a tuple, or a list of them."""
    if not isinstance(args, tuple | list):
        raise ArityError(
            f"{check} takes the arguments of the function as a tuple, not {type(args).__name__}",
            instead=[f"{check}(f, (x, y)), or {check}(f, (x,)) for one"],
        )


def gradient_fd(f: Callable[..., float], args: tuple[Any, ...], argnum: int = 0) -> Any:
    """The gradient of `f` with respect to a number or an array argument, entry by entry; of complex
    ones ∂/∂Re + i ∂/∂Im.
    """
    require_tuple("gradient_fd", args)
    if not (isinstance(argnum, int | np.integer) and -len(args) <= argnum < len(args)):
        raise ArityError(f"gradient_fd: argnum is {argnum!r}, of {len(args)} arguments")
    x = args[argnum]
    units = (1.0, 1j) if np.iscomplexobj(x) else (1.0,)
    gradient = np.zeros(np.shape(x), np.result_type(*units))
    for index in np.ndindex(gradient.shape):
        for unit in units:
            direction = np.zeros(gradient.shape, dtype=np.asarray(x).dtype)
            direction[index] = unit
            tangents: list[Any] = [None] * len(args)
            tangents[argnum] = direction if gradient.shape else unit
            gradient[index] += unit * directional_derivative(f, args, tuple(tangents))[0]
    return gradient if gradient.shape else gradient.item()


# --- tangents, and arithmetic with them ---


def rand_tangent(x: Any, rng: np.random.Generator | None = None) -> Any:
    """A random tangent of `x`, standard normal, with the type (and layout of arrays) of `x`.

    `None` in place of everything that has no tangent, also in tuples, lists, dictionaries and
    dataclasses. For an instance of a jitclass, a `numba.typed.List` or `Dict` a new object, with
    zeros in place of parts without a tangent. `TypeError` for objects whose fields cannot be set,
    and for an `rng` that is no generator.
    """
    rng = np.random.default_rng() if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng is a numpy.random.Generator, as np.random.default_rng(3), not {rng!r}"
        )
    if isinstance(x, tuple):
        return like_tuple(type(x), [rand_tangent(entry, rng) for entry in x])
    if is_tree(x):
        return rebuilt(x, [rand_tangent(entry, rng) for entry in entries(x)])
    is_function = isinstance(getattr(x, "_numba_type_", None), types.Callable)
    if is_object(x) or (hasattr(x, "_numba_type_") and not is_function):
        return rand_object(x, rng)
    if not is_differentiable(x):
        return None
    sample = rand_numbers(x, rng)
    if isinstance(x, np.ndarray):
        tangent = zeros_with_strides(x)
        tangent[...] = sample
        return tangent
    return type(x)(sample)


def is_differentiable(x: Any) -> bool:
    """Whether `x` is a float, a complex number or an array of them, or a tuple, or an object of
    Numba, that holds one.
    """
    if isinstance(x, tuple):
        return any(is_differentiable(entry) for entry in x)
    if is_object(x):
        return any(map(is_differentiable, contents(x)))
    if isinstance(x, np.ndarray):
        return np.issubdtype(x.dtype, np.inexact)
    return isinstance(x, (float, complex, np.inexact))


def shifted(x: Any, t: float, tangent: Any) -> Any:
    """A new x + t tangent with the type and the layout of `x`."""
    if isinstance(x, tuple):
        tangents = [None] * len(x) if tangent is None else tangent
        return like_tuple(type(x), [shifted(a, t, v) for a, v in zip(x, tangents, strict=True)])
    if is_tree(x):
        own = entries(x)
        along = [None] * len(own) if tangent is None else entries(tangent)
        return rebuilt(x, [shifted(a, t, v) for a, v in zip(own, along, strict=True)])
    if is_object(x):
        along = [None] * len(contents(x)) if tangent is None else _tangents_in(tangent)
        return holding(x, [shifted(a, t, v) for a, v in zip(contents(x), along, strict=True)])
    if isinstance(x, np.ndarray):
        result = copy_layout(x)
        if tangent is not None:
            result[...] += t * tangent
        return result
    return x if tangent is None else type(x)(x + t * tangent)


def copied(x: Any) -> Any:
    """A copy of `x`, with the layout of its arrays."""
    return shifted(x, 0.0, None)


def scaled(tangent: Any, factor: float) -> Any:
    """A new multiple of a tangent; `None` stays `None`."""
    if isinstance(tangent, tuple):
        return like_tuple(type(tangent), [scaled(entry, factor) for entry in tangent])
    if is_tree(tangent):
        return rebuilt(tangent, [scaled(entry, factor) for entry in entries(tangent)])
    if is_object(tangent):
        return holding(tangent, [scaled(entry, factor) for entry in _tangents_in(tangent)])
    if isinstance(tangent, np.ndarray):
        result = copy_layout(tangent)
        result *= factor
        return result
    return None if tangent is None else type(tangent)(tangent * factor)


def inner(x_bar: Any, x_dot: Any) -> float:
    """The pairing of a cotangent with a tangent, a real number; None and symbolic zeros give zero.

    For complex entries it is Re(conj(x_bar) x_dot): cotangents hold d/dRe + i d/dIm.
    """
    return math.fsum(inner_terms(x_bar, x_dot))


def inner_terms(x_bar: Any, x_dot: Any) -> Iterator[float]:
    """The terms of `inner`, one per number."""
    if any(x is None or is_zero(x) for x in (x_bar, x_dot)):
        return
    if isinstance(x_bar, tuple | Tangent) or is_tree(x_bar):
        for bar, dot in zip(entries(x_bar), entries(x_dot), strict=True):
            yield from inner_terms(bar, dot)
    elif is_object(x_bar):
        for bar, dot in zip(_tangents_in(x_bar), _tangents_in(x_dot), strict=True):
            yield from inner_terms(bar, dot)
    else:
        bar, dot = np.asarray(x_bar), np.asarray(x_dot)
        if bar.shape != dot.shape:
            shapes = f"{bar.shape}, the tangent {dot.shape}"
            raise TangentMismatch(f"the cotangent has the shape {shapes}")
        wide = np.result_type(bar.dtype, np.float64)
        yield from np.real(np.conj(bar.astype(wide)) * dot).ravel().tolist()


def _tangents_in(x: Any) -> list[Any]:
    """The contents of a tangent that is an object, with None for parts without a tangent."""
    return [each if is_differentiable(each) else None for each in contents(x)]


def shares_items(x: np.ndarray) -> bool:
    """Whether items of an array share memory, as those of a broadcast array do."""
    numbers = np.arange(x.size).reshape(x.shape).astype(x.dtype)
    probe = zeros_with_strides(x)
    probe[...] = numbers
    return not np.array_equal(probe, numbers)


def copy_layout(x: np.ndarray) -> np.ndarray:
    """A copy of `x` with the strides of `x`."""
    result = zeros_with_strides(x)
    result[...] = x
    return result


def well_conditioned(n: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """A random n x n matrix, not symmetric, with singular values between 1 and 3."""
    rng = np.random.default_rng(0) if rng is None else rng
    left, _ = np.linalg.qr(rng.standard_normal((n, n)))
    right, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (left * rng.uniform(1.0, 3.0, n)) @ right
