"""Derivatives by finite differences, each with an estimate of its own error.

Nothing here knows automatic differentiation: these are the numbers it is compared with. A
derivative is taken by central differences at a sequence of shrinking steps, extrapolated to step
zero; the entry of the table with the smallest estimated error wins, so no step has to be chosen.

Values are floats, complex numbers, arrays, and tuples of them ("trees"); anything else (integers,
strings, None) has no tangent and stays as it is.

Source  Ridders (1982), Accurate computation of F'(x); Fornberg (1988), Generation of finite
        difference formulas on arbitrarily spaced grids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from activerules.annotations.containers import like_tuple

_SHRINK = 2.0
_ROWS = 13


@dataclass(frozen=True)
class CentralDifference:
    """A central scheme: `coefficients[i]` weighs the value at `x + grid[i] * step`.

    `order` counts the grid points, `derivative` is the derivative taken (1 = first).
    """

    order: int
    derivative: int
    grid: np.ndarray
    coefficients: np.ndarray

    def __call__(self, f: Callable[[float], Any], x: float) -> Any:
        """The derivative of `f` at `x`: a float, or an array where `f` returns an array."""
        return self.estimate(f, x)[0]

    def estimate(
        self, f: Callable[[float], Any], x: float, *, step: float = 0.1, eps: float | None = None
    ) -> tuple[Any, float]:
        """The derivative and an estimate of its error.

        Arguments
            f      takes a float, returns a float or an array.
            x      where.
            step   the largest step tried, relative to max(1, |x|); smaller ones follow.
            eps    the relative rounding error of a value of `f`; by default that of its dtype.

        Returns
            (value, error): the error is the largest one for an array. It is infinite where no step
            gave finite values.
        """
        best_value, best_error = math.nan, math.inf
        above: list[Any] = []
        h = step * max(1.0, abs(x))
        for _ in range(_ROWS):
            value, noise = self._at_step(f, x, h, eps)
            row = [value]
            for j, finer in enumerate(above):
                gain = _SHRINK ** (self._accuracy + 2 * j) - 1.0
                row.append(row[j] + (row[j] - finer) / gain)
                error = noise + max(_size(row[j + 1] - row[j]), _size(row[j + 1] - finer))
                if error < best_error:
                    best_value, best_error = row[j + 1], error
            above = row
            h /= _SHRINK
        return best_value, best_error

    @property
    def _accuracy(self) -> int:
        """The power of the step in the leading error; odd powers vanish by symmetry."""
        return 2 * ((self.order - self.derivative + 1) // 2)

    def _at_step(
        self, f: Callable[[float], Any], x: float, h: float, eps: float | None
    ) -> tuple[Any, float]:
        """The scheme at one step, and what rounding of arguments and values may add to it."""
        total, magnitude, rounding = 0.0, 0.0, 0.0
        for offset, weight in zip(self.grid, self.coefficients, strict=True):
            if weight:
                value = np.asarray(f(x + offset * h))
                rounding = eps or float(np.finfo(value.dtype).eps)
                magnitude += abs(weight) * _size(value)
                total = total + weight * value.astype(np.result_type(value.dtype, np.float64))
        result = total / h**self.derivative
        of_arguments = _size(result) * max(1.0, abs(x)) / h
        return result, rounding * (of_arguments + magnitude / h**self.derivative)


def central_fdm(order: int, derivative: int = 1) -> CentralDifference:
    """A central finite-difference scheme of `order` grid points for the given derivative.

    Raises `ValueError` when there are too few points for the derivative.

    >>> round(central_fdm(5)(math.exp, 0.0), 9)
    1.0
    """
    if derivative < 1 or order <= derivative:
        raise ValueError(f"{order} points give no derivative of order {derivative}")
    half = order // 2
    points = [k for k in range(-half, half + 1) if k or order % 2]
    grid = np.array(points, dtype=float)
    moments = np.vander(grid, increasing=True).T
    unit = np.zeros(order)
    unit[derivative] = math.factorial(derivative)
    coefficients = np.linalg.solve(moments, unit)
    coefficients[np.abs(coefficients) < 1e-14] = 0.0
    return CentralDifference(order, derivative, grid, coefficients)


def directional_derivative(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    eps: float | None = None,
) -> tuple[Any, float]:
    """d/dt f(args + t tangents) at t = 0, as (value, error estimate).

    `tangents` has one entry per argument, `None` for an argument that stays. `f` gets fresh copies
    of its arguments, so it may write into them.
    """

    def along(t: float) -> Any:
        return f(*(shifted(x, t, v) for x, v in zip(args, tangents, strict=True)))

    return central_fdm(3).estimate(along, 0.0, eps=eps)


def gradient_fd(f: Callable[..., float], args: tuple[Any, ...], argnum: int = 0) -> Any:
    """The gradient of `f` with respect to a float or an array argument, entry by entry."""
    x = args[argnum]
    gradient = np.zeros(np.shape(x))
    for index in np.ndindex(gradient.shape):
        unit = np.zeros(gradient.shape, dtype=np.asarray(x).dtype)
        unit[index] = 1.0
        tangents: list[Any] = [None] * len(args)
        tangents[argnum] = unit if gradient.shape else 1.0
        gradient[index] = directional_derivative(f, args, tuple(tangents))[0]
    return gradient if gradient.shape else float(gradient)


# --- trees: floats, arrays, and tuples of them ---


def rand_tangent(x: Any, rng: np.random.Generator | None = None) -> Any:
    """A random tangent of `x`, standard normal, with the type (of arrays: the layout) of `x`.

    `None` in place of everything that has no tangent.
    """
    rng = np.random.default_rng() if rng is None else rng
    if isinstance(x, tuple):
        return like_tuple(type(x), [rand_tangent(entry, rng) for entry in x])
    if not is_differentiable(x):
        return None
    sample = rng.standard_normal(np.shape(x))
    if np.iscomplexobj(x):
        sample = sample + 1j * rng.standard_normal(np.shape(x))
    if isinstance(x, np.ndarray):
        tangent = same_layout(x)
        tangent[...] = sample
        return tangent
    return type(x)(sample)


def is_differentiable(x: Any) -> bool:
    """Whether `x` is a float, a complex number or an array of them, or a tuple that holds one."""
    if isinstance(x, tuple):
        return any(is_differentiable(entry) for entry in x)
    if isinstance(x, np.ndarray):
        return np.issubdtype(x.dtype, np.inexact)
    return isinstance(x, (float, complex, np.inexact))


def shifted(x: Any, t: float, tangent: Any) -> Any:
    """A fresh x + t tangent with the type and the layout of `x`."""
    if isinstance(x, tuple):
        tangents = [None] * len(x) if tangent is None else tangent
        return like_tuple(type(x), [shifted(a, t, v) for a, v in zip(x, tangents, strict=True)])
    if isinstance(x, np.ndarray):
        result = copy_layout(x)
        if tangent is not None:
            result[...] += t * tangent
        return result
    return x if tangent is None else type(x)(x + t * tangent)


def scaled(tangent: Any, factor: float) -> Any:
    """A fresh multiple of a tangent; `None` stays."""
    if isinstance(tangent, tuple):
        return like_tuple(type(tangent), [scaled(entry, factor) for entry in tangent])
    if isinstance(tangent, np.ndarray):
        result = copy_layout(tangent)
        result *= factor
        return result
    return None if tangent is None else type(tangent)(tangent * factor)


def inner(x_bar: Any, x_dot: Any) -> float:
    """The pairing of a cotangent with a tangent, a real number; `None` pairs to zero.

    For complex entries it is Re(conj(x_bar) x_dot): cotangents hold d/dRe + i d/dIm.
    """
    return math.fsum(inner_terms(x_bar, x_dot))


def inner_terms(x_bar: Any, x_dot: Any) -> Iterator[float]:
    """The terms of `inner`, one per number."""
    if x_bar is None or x_dot is None:
        return
    if isinstance(x_bar, tuple):
        for bar, dot in zip(x_bar, x_dot, strict=True):
            yield from inner_terms(bar, dot)
    else:
        wide = np.result_type(np.asarray(x_bar).dtype, np.float64)
        product = np.conj(np.asarray(x_bar, dtype=wide)) * np.asarray(x_dot)
        yield from np.real(product).ravel().tolist()


def same_layout(x: np.ndarray) -> np.ndarray:
    """A zero array with the shape, dtype and strides of `x` (also negative or broken ones)."""
    if x.size == 0:
        return np.zeros_like(x)
    steps = [(n - 1) * stride for n, stride in zip(x.shape, x.strides, strict=True)]
    before = -sum(step for step in steps if step < 0)
    after = sum(step for step in steps if step > 0)
    buffer = np.zeros(before + after + x.itemsize, dtype=np.uint8)
    return np.ndarray(x.shape, x.dtype, buffer, before, x.strides)


def copy_layout(x: np.ndarray) -> np.ndarray:
    """A copy of `x` with the strides of `x`."""
    result = same_layout(x)
    result[...] = x
    return result


def well_conditioned(n: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """A random n x n matrix, not symmetric, with singular values between 1 and 3."""
    rng = np.random.default_rng(0) if rng is None else rng
    left, _ = np.linalg.qr(rng.standard_normal((n, n)))
    right, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (left * rng.uniform(1.0, 3.0, n)) @ right


def _size(value: Any) -> float:
    """The largest magnitude; NaN counts as infinite, so that a failed step never wins."""
    largest = float(np.max(np.abs(value), initial=0.0))
    return math.inf if math.isnan(largest) else largest
