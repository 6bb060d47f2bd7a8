"""Derivatives by finite differences, each with an estimate of its own error.

Nothing here knows automatic differentiation: these are the numbers it is compared with. A
derivative is taken by differences at a sequence of shrinking steps, extrapolated to step zero; the
entry of the table with the smallest estimated error that finer steps confirm wins, so no step has
to be chosen.

Values are floats, complex numbers, arrays, and tuples, lists, dictionaries, dataclasses and Numba's
objects of them ("trees"); anything else (integers, strings, None) has no tangent and stays as it
is.

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
from activerules.testing.trees import entries, is_tree, rand_object, rebuilt

_SHRINK = 2.0
# Steps tried at first, and at most, where the derivative is not yet settled.
_ROWS, _MOST_ROWS = 13, 28
# A relative error that a comparison is content with.
_SETTLED = 1e-4
# How many errors apart two estimates may be.
_SAFETY = 10.0


@dataclass(frozen=True)
class FiniteDifference:
    """A scheme: `coefficients[i]` weighs the value at `x + grid[i] * step`.

    `order` counts the grid points, `derivative` is the derivative taken (1 = first); nothing is
    evaluated further than `max_range` from `x`.
    """

    order: int
    derivative: int
    grid: np.ndarray
    coefficients: np.ndarray
    max_range: float = math.inf

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
            step   the largest step tried, relative to max(1, |x|); smaller ones follow, down to
                   1e-9 of it while they still tell something new.
            eps    the relative rounding error of a value of `f`; by default that of its dtype.

        Returns
            (value, error): the error is the largest one for an array. It is infinite where no step
            gave finite values.
        """
        found: list[tuple[Any, float]] = []
        above: list[Any] = []
        h = min(step * max(1.0, abs(x)), self.max_range / float(np.max(np.abs(self.grid))))
        best, noise = 0, 0.0
        while len(found) < _ROWS or (len(found) < _MOST_ROWS and _may_gain(found, best, noise)):
            value, noise = self._at_step(f, x, h, eps)
            row, winner = [value], (math.nan, math.inf)
            for j, finer in enumerate(above):
                gain = _SHRINK ** (self._accuracy + self._power * j) - 1.0
                row.append(row[j] + (row[j] - finer) / gain)
                error = noise + max(_size(row[j + 1] - row[j]), _size(row[j + 1] - finer))
                if error < winner[1]:
                    winner = row[j + 1], error
            found.append(winner)
            above = row
            best = _best(found)
            h /= _SHRINK
        value, error = found[best]
        finer = [_size(value - v) for v, e in found[best + 1 : best + 2] if math.isfinite(e)]
        return value, max(error, *finer, 0.0)

    @property
    def _is_central(self) -> bool:
        return self.grid[0] == -self.grid[-1]

    @property
    def _power(self) -> int:
        """By how much the powers of the step grow: odd ones vanish by symmetry."""
        return 2 if self._is_central else 1

    @property
    def _accuracy(self) -> int:
        """The power of the step in the leading error."""
        points = self.order - self.derivative
        return 2 * ((points + 1) // 2) if self._is_central else points

    def _at_step(
        self, f: Callable[[float], Any], x: float, h: float, eps: float | None
    ) -> tuple[Any, float]:
        """The scheme at one step, and what rounding of arguments and values may add to it."""
        total, magnitude, rounding = 0.0, 0.0, 0.0
        for offset, weight in zip(self.grid, self.coefficients, strict=True):
            if weight:
                value = np.asarray(f(x + offset * h))
                if not np.issubdtype(value.dtype, np.inexact):
                    value = value.astype(np.float64)
                rounding = eps or float(np.finfo(value.dtype).eps)
                magnitude += abs(weight) * _size(value)
                total = total + weight * value.astype(np.result_type(value.dtype, np.float64))
        result = total / h**self.derivative
        of_arguments = _size(result) * max(1.0, abs(x)) / h
        return result, rounding * (of_arguments + magnitude / h**self.derivative)


def _may_gain(found: list[tuple[Any, float]], best: int, noise: float) -> bool:
    """Whether finer steps may tell something new: no two of those taken confirm the best one, or
    its error is large, and rounding is not the reason.
    """
    value, error = found[best]
    near = [e for v, e in found[best + 1 :] if e <= 0.1 * _size(v) and _agree(found[best], (v, e))]
    return noise < error and (len(near) < 2 or error > _SETTLED * _size(value))


def _best(found: list[tuple[Any, float]]) -> int:
    """The row with the smallest error that no two finer ones, which agree, contradict: coarse steps
    through a function that oscillates may agree by chance, and so may one step through noise.
    """
    for i in sorted(range(len(found)), key=lambda k: found[k][1]):
        against = [not _agree(found[i], finer) for finer in found[i + 1 :]]
        pairs = zip(found[i + 1 :], found[i + 2 :], strict=False)
        alike = [_agree(*pair) for pair in pairs]
        if not any(a and b and c for a, b, c in zip(against, against[1:], alike, strict=False)):
            return i
    return len(found) - 1


def _agree(one: tuple[Any, float], other: tuple[Any, float]) -> bool:
    """Whether two estimates are as near as their errors say; one that failed says nothing."""
    errors = one[1] + other[1]
    return not math.isfinite(errors) or _size(one[0] - other[0]) <= _SAFETY * errors


def central_fdm(
    order: int, derivative: int = 1, *, max_range: float = math.inf
) -> FiniteDifference:
    """A central finite-difference scheme of `order` grid points for the given derivative.

    It evaluates nothing further than `max_range` from the point. Steps are chosen per call:
    `scheme(f, x)` is the derivative, `scheme.estimate(f, x)` that and its error. Raises
    `ValueError` when there are too few points for the derivative, or no range.

    >>> round(central_fdm(5)(math.exp, 0.0), 9)
    1.0
    """
    half = order // 2
    return _scheme([k for k in range(-half, half + 1) if k or order % 2], derivative, max_range)


def forward_fdm(
    order: int, derivative: int = 1, *, max_range: float = math.inf
) -> FiniteDifference:
    """As `central_fdm`, from the point upwards: for functions that are not defined below it.

    >>> round(forward_fdm(5)(math.sqrt, 1.0), 9)
    0.5
    """
    return _scheme(list(range(order)), derivative, max_range)


def backward_fdm(
    order: int, derivative: int = 1, *, max_range: float = math.inf
) -> FiniteDifference:
    """As `central_fdm`, from the point downwards.

    >>> round(backward_fdm(5)(math.sqrt, 1.0), 9)
    0.5
    """
    return _scheme(list(range(1 - order, 1)), derivative, max_range)


def extrapolate_fdm(
    scheme: FiniteDifference, f: Callable[[float], Any], x: float, initial_step: float = 10.0
) -> tuple[Any, float]:
    """The limit of a scheme for steps from `initial_step` down to zero, as (value, error estimate).

    >>> value, error = extrapolate_fdm(central_fdm(2), math.sin, 0.0)
    >>> abs(value - 1.0) <= error < 1e-10
    True
    """
    return scheme.estimate(f, x, step=initial_step / max(1.0, abs(x)))


def _scheme(points: list[int], derivative: int, max_range: float) -> FiniteDifference:
    order = len(points)
    if derivative < 1 or order <= derivative:
        raise ValueError(f"{order} points give no derivative of order {derivative}")
    if not max_range > 0:
        raise ValueError(f"max_range is a distance above zero, not {max_range}")
    grid = np.array(points, dtype=float)
    moments = np.vander(grid, increasing=True).T
    unit = np.zeros(order)
    unit[derivative] = math.factorial(derivative)
    coefficients = np.linalg.solve(moments, unit)
    coefficients[np.abs(coefficients) < 1e-12 * np.max(np.abs(coefficients))] = 0.0
    return FiniteDifference(order, derivative, grid, coefficients, max_range)


def directional_derivative(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    eps: float | None = None,
    fdm: FiniteDifference | None = None,
) -> tuple[Any, float]:
    """d/dt f(args + t tangents) at t = 0, as (value, error estimate).

    `tangents` has one entry per argument, `None` for an argument that stays. `f` gets fresh copies
    of its arguments, so it may write into them. `fdm` is the scheme, by default a central one.
    """

    def along(t: float) -> Any:
        return f(*(shifted(x, t, v) for x, v in zip(args, tangents, strict=True)))

    return (fdm or central_fdm(3)).estimate(along, 0.0, eps=eps)


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

    `None` in place of everything that has no tangent, also in tuples, lists, dictionaries and
    dataclasses. Of an instance of a jitclass, a `numba.typed.List` or `Dict` it is a new one, with
    zeros in place of what has no tangent. `TypeError` for objects whose fields cannot be set.
    """
    rng = np.random.default_rng() if rng is None else rng
    if isinstance(x, tuple):
        return like_tuple(type(x), [rand_tangent(entry, rng) for entry in x])
    if is_tree(x):
        return rebuilt(x, [rand_tangent(entry, rng) for entry in entries(x)])
    if hasattr(x, "_numba_type_"):
        return rand_object(x, rng)
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
    if is_tree(x):
        own = entries(x)
        along = [None] * len(own) if tangent is None else entries(tangent)
        return rebuilt(x, [shifted(a, t, v) for a, v in zip(own, along, strict=True)])
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
    if is_tree(tangent):
        return rebuilt(tangent, [scaled(entry, factor) for entry in entries(tangent)])
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
    if isinstance(x_bar, tuple) or is_tree(x_bar):
        for bar, dot in zip(entries(x_bar), entries(x_dot), strict=True):
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
