"""Gradients of whole programs against finite differences.

One identity covers both returned values and written arguments. Let r be the return value and a_i
the array arguments; the shadows start as random cotangents c_i of the final contents of the arrays.
After a reverse sweep they must hold the gradient of

    phi(args) = r(args) + sum_i <c_i, a_i at the end(args)>

so an argument that is only read has its gradient *added to* c_i, and one that is overwritten has
c_i consumed. Both sides are compared along random directions, one argument at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import activerules as ar
from activerules.annotations.activity import RETURNED, SHADOWED, annotate, is_annotation_class
from activerules.annotations.containers import like_tuple
from activerules.errors import ActivityError, RuleCheckError
from activerules.numba_ext.target.dispatchers import as_compiled
from activerules.testing.numeric import (
    copied,
    directional_derivative,
    inner,
    inner_terms,
    is_differentiable,
    rand_tangent,
    require_tuple,
    shifted,
)
from activerules.testing.reordering import may_reorder
from activerules.testing.trees import contents, is_object, shown

# A comparison is meaningful only if finite differences resolve the derivative: RESOLUTION bounds
# their estimated error, FLOOR is the error that rounding may add in a long program; both relative.
SAFETY = 10.0
FLOOR = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 2e-4}
# the relative change of the primal by another order of summation, if the program allows it, and the
# absolute one of a sum of terms that cancel
REORDERED, NEAR_ZERO = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-4}, 1e-8
RESOLUTION = {np.dtype(np.float64): 1e-4, np.dtype(np.float32): 2e-2}
UNRESOLVED = "they do not resolve the derivative here: choose another point"


def check_gradient(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    activities: Sequence[Any] | None = None,
    seed: int = 0,
    trials: int = 2,
) -> None:
    """Check the reverse-mode gradient of `f` at `args` against finite differences.

    Arguments
        f            an `@njit` function; it returns a float or nothing, and may write into arrays.
        args         plain values; they are copied, never written.
        activities   annotation classes, one per argument; by default Active for floats and tuples
                     of floats, Duplicated for float arrays, objects of Numba and tuples of them,
                     MixedDuplicated for tuples with both, otherwise Const.
        seed         of the random shadows and directions.
        trials       random directions per argument.

    Checked: the primal value and the final contents of the arrays, bit for bit; derivatives with
    respect to every argument along random directions, with shadows that start non-zero.

    Raises
        RuleCheckError   with argument, direction, found and expected value with its error estimate.
        ValueError       without `activities`: no argument has a derivative to check; no trials.
    """
    require_tuple("check_gradient", args)
    if trials < 1:
        raise ValueError(f"check_gradient: {trials} trials compare nothing")
    Check(as_compiled(f), args, activities, np.random.default_rng(seed)).run(trials)


@dataclass(frozen=True)
class Comparison:
    """A derivative along a direction, next to finite differences: `expected` ± `error`.

    resolved   whether finite differences resolve the derivative well enough
    agrees     whether the two agree, up to the error and rounding
    """

    found: float
    expected: float
    error: float
    resolved: bool
    agrees: bool
    direction: Any


def compared(
    terms: Sequence[float],
    expected: float,
    error: float,
    precision: np.dtype,
    *,
    direction: Any,
    allowed: float = 0.0,
) -> Comparison:
    """Compare a derivative, the sum of `terms`; it may also differ by what is `allowed`."""
    found = math.fsum(terms)
    scale = max(abs(expected), math.fsum(map(abs, terms)))
    return Comparison(
        found,
        expected,
        error,
        resolved=error <= max(RESOLUTION[precision] * max(scale, 1e-3), allowed),
        agrees=abs(found - expected) <= SAFETY * error + FLOOR[precision] * scale + allowed,
        direction=direction,
    )


@dataclass
class CallOutcome:
    """The outcome of a call: its value, its arguments after it, derivatives if there are any."""

    value: Any
    args: tuple[Any, ...]
    derivatives: tuple[Any, ...] = ()


class Check:
    """A program at a point, with the cotangents `starts` that its shadows start with."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        activities: Sequence[Any] | None,
        rng: np.random.Generator,
    ) -> None:
        self.f = f
        self.args = args
        self.rng = rng
        self.activities = default_activities(args) if activities is None else _classes(activities)
        if len(self.activities) != len(args):
            raise ValueError(
                f"{len(self.activities)} activities for {len(args)} arguments; each has one"
            )
        self.starts = tuple(
            arrays_of(rand_tangent(x, rng)) if activity in SHADOWED else None
            for x, activity in zip(args, self.activities, strict=True)
        )

    def run(self, trials: int) -> None:
        """Compare primal results, then derivatives. Raises at the first that differs."""
        for i, comparison in self.comparisons(trials):
            self.require(i, comparison)

    def comparisons(self, trials: int) -> Iterator[tuple[int, Comparison]]:
        """Compare primal results; then yield derivatives along `trials` directions per argument."""
        expected = self.primal(self.args)
        found = self.gradient(expected)
        self.same("return value", found.value, expected.value)
        for i, (got, wanted) in enumerate(zip(found.args, expected.args, strict=True)):
            self.same(f"argument {i} after the call", got, wanted)
        written = self.written()
        for i, activity in enumerate(self.activities):
            if activity is not ar.Const:
                for _ in range(trials):
                    yield i, self.compare(i, found.derivatives[i], written)

    def primal(self, args: tuple[Any, ...]) -> CallOutcome:
        """The program on copies of `args`."""
        copies = tuple(map(copied, args))
        return CallOutcome(self.f(*copies), copies)

    def gradient(self, expected: CallOutcome) -> CallOutcome:
        """The program and its reverse sweep on copies; `derivatives` has the final shadows."""
        copies = tuple(map(copied, self.args))
        shadows = tuple(completed(copied(c), x) for c, x in zip(self.starts, copies, strict=True))
        annotated = list(map(annotate, self.activities, copies, shadows))
        returned = ar.Active if is_differentiable(expected.value) else ar.Const
        derivatives, value = ar.autodiff(ar.ReverseWithPrimal, self.f, returned, *annotated)
        for i, (activity, entry) in enumerate(zip(self.activities, derivatives, strict=True)):
            if activity not in RETURNED and entry is not None:
                raise self.failure(f"derivative of argument {i}", entry, "None: it is not Active")
        ends = tuple(
            completed(entry, arrays_of(shadow))
            for shadow, entry in zip(shadows, derivatives, strict=True)
        )
        return CallOutcome(value, copies, ends)

    def written(self) -> tuple[bool, ...]:
        """Per argument, whether the program writes into it, as seen from changed values.

        A second point is tried, since an array may happen to end up unchanged. It is so near that
        small values stay in the domain of the program.
        """
        step = math.sqrt(np.finfo(self.precision()).eps)
        nudged = tuple(shifted(x, step, c) for x, c in zip(self.args, self.starts, strict=True))
        runs = [(self.args, self.primal(self.args)), (nudged, self.primal(nudged))]
        return tuple(
            any(not identical(before[i], after.args[i]) for before, after in runs)
            for i in range(len(self.args))
        )

    def has_output(self) -> bool:
        """Whether the program returns a value, or writes into an argument, that is compared."""
        return is_differentiable(self.primal(self.args).value) or any(self.written())

    def compare(self, i: int, found: Any, written: tuple[bool, ...]) -> Comparison:
        """Compare the derivative with respect to argument `i` along one random direction."""
        direction = rand_tangent(self.args[i], self.rng)
        cotangents = [c if w else None for c, w in zip(self.starts, written, strict=True)]
        tangents = [direction if k == i else None for k in range(len(self.args))]

        def phi(*args: Any) -> float:
            outcome = self.primal(args)
            own = [outcome.value] if is_differentiable(outcome.value) else []
            parts = [inner(c, a) for c, a in zip(cotangents, outcome.args, strict=True)]
            return math.fsum([*map(float, own), *parts])

        precision = self.precision()
        eps = float(np.finfo(precision).eps)
        expected, error = directional_derivative(phi, self.args, tuple(tangents), eps=eps)
        terms = list(inner_terms(found, direction))
        if not written[i]:
            terms += [-term for term in inner_terms(self.starts[i], direction)]
        return compared(terms, float(expected), float(error), precision, direction=direction)

    def require(self, i: int, comparison: Comparison) -> None:
        """Raise `RuleCheckError` unless the derivative with respect to argument `i` agrees."""
        if not comparison.resolved:
            raise self.failure(
                f"finite differences of argument {i}",
                comparison.found,
                f"{comparison.expected:.10g} ± {comparison.error:.1e}",
                UNRESOLVED,
            )
        if not comparison.agrees:
            raise self.failure(
                f"derivative of argument {i} along a random direction",
                f"{comparison.found:.12g}",
                f"finite differences {comparison.expected:.12g} ± {comparison.error:.1e}",
                f"direction {shown(comparison.direction)}",
            )

    def precision(self) -> np.dtype:
        """The precision of the program: single if any argument is of single precision."""
        return precision_of(self.args)

    def same(self, what: str, found: Any, expected: Any) -> None:
        """Require equal values, bit for bit, NaN included: a derivative must not change the primal.

        Up to rounding if the program, or a function it calls, allows sums to be reordered.
        """
        reordered = may_reorder(self.f) and agree(
            found, expected, REORDERED[self.precision()], NEAR_ZERO
        )
        if not (reordered or identical(found, expected)):
            raise self.failure(what, found, expected)

    def failure(self, what: str, found: Any, expected: Any, why: str = "") -> RuleCheckError:
        """The error with the program, the annotations and the two values."""
        names = ", ".join(activity.__name__ for activity in self.activities)
        program = getattr(self.f, "__name__", str(self.f))
        return RuleCheckError(
            f"{program}({names}): {what}: found {shown(found)}, expected {shown(expected)}", why=why
        )


def _classes(activities: Any) -> tuple[type[ar.Annotation], ...]:
    """The activities that were asked for; `ActivityError` unless they are annotation classes."""
    if isinstance(activities, tuple | list) and all(map(is_annotation_class, activities)):
        return tuple(activities)
    raise ActivityError(
        f"the activities are {activities!r}, expected one annotation class per argument",
        instead=["(Duplicated, Const), say, for f(array, number)"],
    )


def default_activities(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`default_activity` of each argument; `ValueError` if all are Const."""
    activities = tuple(map(default_activity, args))
    if all(activity is ar.Const for activity in activities):
        raise ValueError(
            "no argument has a derivative that is checked: floats, complex numbers, arrays of "
            "them, objects and tuples of these have one; other arguments are held constant"
        )
    return activities


def default_activity(x: Any) -> Any:
    """Duplicated if derivatives are added to a shadow, Active if they are returned, MixedDuplicated
    for tuples with both, otherwise Const.
    """
    if isinstance(x, tuple):
        kinds = {*map(default_activity, x)} - {ar.Const}
        return ar.MixedDuplicated if len(kinds) > 1 else kinds.pop() if kinds else ar.Const
    if not is_differentiable(x):
        return ar.Const
    return ar.Duplicated if isinstance(x, np.ndarray) or is_object(x) else ar.Active


def arrays_of(x: Any) -> Any:
    """`x` with None in place of everything but arrays and objects."""
    if isinstance(x, tuple):
        return like_tuple(type(x), [arrays_of(entry) for entry in x])
    return x if isinstance(x, np.ndarray) or is_object(x) else None


def completed(x: Any, defaults: Any) -> Any:
    """`x` with None replaced by the parts of `defaults`."""
    if isinstance(x, tuple) and isinstance(defaults, tuple):
        return like_tuple(type(x), [completed(a, b) for a, b in zip(x, defaults, strict=True)])
    return defaults if x is None else x


def _dtypes(x: Any) -> set[type]:
    if isinstance(x, tuple):
        return {kind for entry in x for kind in _dtypes(entry)}
    if is_object(x):
        return _dtypes(tuple(contents(x)))
    return {np.asarray(x).dtype.type} if is_differentiable(x) else set()


def precision_of(values: Sequence[Any]) -> np.dtype:
    """Single precision if any of the values is, otherwise double."""
    single = any(_dtypes(x) & {np.float32, np.complex64} for x in values)
    return np.dtype(np.float32 if single else np.float64)


def identical(x: Any, y: Any) -> bool:
    """Whether two values are the same bit for bit, through tuples and objects; NaN equals NaN."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(identical, x, y))
    if is_object(x) and is_object(y):
        return identical(tuple(contents(x)), tuple(contents(y)))
    if is_differentiable(x):
        return np.array_equal(x, y, equal_nan=True)
    return bool(np.array_equal(x, y))


def agree(x: Any, y: Any, rtol: float, atol: float) -> bool:
    """Whether two values are identical, or differ by rounding of the numbers in them."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(agree(*each, rtol, atol) for each in zip(x, y, strict=True))
    if is_object(x) and is_object(y):
        return agree(tuple(contents(x)), tuple(contents(y)), rtol, atol)
    if any(isinstance(each, tuple) or is_object(each) for each in (x, y)):
        return False
    return identical(x, y) or (
        is_differentiable(y)
        and x is not None
        and np.shape(x) == np.shape(y)
        and np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
    )
