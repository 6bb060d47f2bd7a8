"""The reference that a rule is compared with: the function itself at a point.

Needs       a function, its arguments, and random cotangents and directions
Gives       `Reference`: the derivatives of phi (see `check_rule`) by finite differences, each taken
            once, and the comparisons with them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numba
import numpy as np

from activerules.annotations.activity import SHADOWED, Const
from activerules.callables import display_name
from activerules.errors import RuleCheckError, TangentMismatch
from activerules.numba_ext.codegen.arity import takes_any_number
from activerules.rules.rule import ForwardRule, RulePair
from activerules.testing.chosen import Tolerance, directions_of
from activerules.testing.gradient import (
    FLOOR,
    RESOLUTION,
    SAFETY,
    Comparison,
    agree,
    compared,
    identical,
    precision_of,
)
from activerules.testing.halves import start_of
from activerules.testing.numeric import (
    copied,
    directional_derivative,
    inner,
    inner_terms,
    is_differentiable,
    rand_tangent,
)
from activerules.testing.schemes import FiniteDifference, backward_fdm, forward_fdm
from activerules.testing.situations import CheckedArgument, Situation, require_known, result_kinds
from activerules.testing.trees import shown

# A batch is two derivatives in one call. Derivatives are linear, so the second lane needs no
# reference of its own; a rule that consumes its tape, or mixes up lanes, fails there.
SCALES = (1.0, -0.5)


class Reference:
    """One function at one point.

    is_variadic           whether the last of the arguments is the tuple of `*args`
    values, result, ends  the arguments, the result, and the arguments after the call
    results               the activities of the result that are checked
    result_bar, starts    the cotangents c of the result and c_j of the final arguments
    directions            v, one per argument
    slopes                the derivatives of the terms of phi along each direction, with errors
    """

    def __init__(
        self,
        f: Any,
        arguments: Sequence[CheckedArgument],
        ret: Any,
        seed: int,
        directions: Sequence[Any] | Mapping[str, Any] | None,
        tolerance: Tolerance,
    ) -> None:
        self.f = f
        self.is_variadic = hasattr(f, "py_func") and takes_any_number(f.py_func)
        self.tolerance = tolerance
        self.name = display_name(f)
        self.arguments = arguments
        self.values = tuple(a.value for a in self.arguments)
        for each in self.arguments:
            require_known(each)
        rng = np.random.default_rng(seed)
        self.result, self.ends = self.primal(self.values)
        self.results = result_kinds(self.result, ret)
        if ret is None and any(map(self.written, range(len(self.values)))):
            # what is written may be used while the result is not
            self.results = tuple(dict.fromkeys((*self.results, Const)))
        self.result_bar = rand_tangent(self.result, rng)
        self.starts = tuple(start_of(rand_tangent(x, rng)) for x in self.values)
        random = [rand_tangent(x, rng) for x in self.values]
        self.directions = directions_of(f, self.arguments, random, directions)
        self.along = "a random direction" if directions is None else "the direction asked for"
        self.precision = precision_of(self.values)
        self.slopes = self.finite_differences()

    @property
    def types(self) -> list[Any]:
        """The types of the arguments and, last, of the result."""
        return [numba.typeof(value) for value in (*self.values, self.result)]

    @property
    def varies(self) -> bool:
        """Whether an argument has a derivative that was asked for."""
        return any(is_differentiable(a.value) and a.kinds != (Const,) for a in self.arguments)

    def copies(self) -> tuple[Any, ...]:
        """Copies of the arguments, for a call that may write into them."""
        return tuple(map(copied, self.values))

    def primal(self, values: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """The function on copies: its result, and the arguments after it."""
        copies = tuple(map(copied, values))
        fixed, gathered = (copies[:-1], copies[-1]) if self.is_variadic else (copies, ())
        return self.f(*fixed, *gathered), copies

    def terms(self, *values: Any) -> np.ndarray[Any, Any]:
        """The terms of phi: for the result, and for the final contents of each argument; 0 for one
        that is not written, beside which a small result would drown in rounding.
        """
        result, ends = self.primal(values)
        of_ends = [
            inner(c, end) if self.written(i) else 0.0
            for i, (c, end) in enumerate(zip(self.starts, ends, strict=True))
        ]
        return np.array([inner(self.result_bar, result), *of_ends])

    def finite_differences(self) -> list[tuple[Any, float]]:
        """The derivative of every term along the direction of every argument, with its error."""
        if not np.isfinite(self.terms(*self.values)).all():
            raise RuleCheckError(
                f"{self.name}: an argument or the result is NaN or infinite",
                why="finite differences are taken of finite numbers",
                instead=["choose another point"],
            )
        return [
            self.slope(i, self.tolerance.fdm)
            if is_differentiable(value)
            else (np.zeros(len(self.values) + 1), 0.0)
            for i, value in enumerate(self.values)
        ]

    def slope(self, i: int, fdm: FiniteDifference | None) -> tuple[Any, float]:
        """The derivative of every term along the direction of argument `i`, with its error."""
        tangents = tuple(self.directions[i] if k == i else None for k in range(len(self.values)))
        eps = float(np.finfo(self.precision).eps)
        return directional_derivative(self.terms, self.values, tangents, eps=eps, fdm=fdm)

    def kink(self, i: int) -> str:
        """Advice if the derivatives on the two sides of the point differ, else ""."""
        if self.tolerance.fdm is not None:
            return ""
        try:
            right, left = (self.slope(i, fdm(5)) for fdm in (forward_fdm, backward_fdm))
        except (ValueError, ArithmeticError):  # outside the domain of the function
            return ""
        apart, errors = float(np.max(np.abs(right[0] - left[0]))), right[1] + left[1]
        if not apart > SAFETY * errors + RESOLUTION[self.precision] * abs(right[0]).max():
            return ""
        return "another point: the slopes of the function on the two sides of this one differ"

    def written(self, i: int) -> bool:
        """Whether the function writes into argument `i`."""
        return not identical(self.values[i], self.ends[i])

    def expected(self, i: int, situation: Situation) -> tuple[float, float]:
        """The derivative of phi with respect to argument `i`, and its error."""
        parts, error = self.slopes[i]
        total = parts[0] if situation.result is not Const else 0.0
        for j, kind in enumerate(situation.kinds):
            if kind in SHADOWED and self.written(j):
                total += parts[1 + j]
        return float(total), error

    def compare(
        self,
        i: int,
        terms: Sequence[float],
        expected: float,
        error: float,
        situation: Situation,
        what: str = "",
        instead: str = "",
    ) -> None:
        """Compare a derivative with the finite difference, and advise `instead` if they differ."""
        comparison = self.compared(i, terms, expected, error)
        if not comparison.resolved:
            raise self.failure(
                f"finite differences of argument {i}",
                f"{expected:.10g} ± {error:.1e}",
                "an error that resolves the derivative: choose another point, or pass fdm=, rtol=",
                situation,
            )
        if not comparison.agrees:
            raise self.failure(
                what or f"derivative of argument {i} along {self.along}",
                f"{comparison.found:.12g}",
                f"finite differences {expected:.12g} ± {error:.1e}",
                situation,
                f"direction {shown(comparison.direction)}",
                instead or self.kink(i),
            )

    def compared(self, i: int, terms: Sequence[float], expected: float, error: float) -> Comparison:
        """A derivative, the sum of `terms`, next to the finite difference."""
        allowed, direction = self.tolerance.of(expected), self.directions[i]
        return compared(
            terms, expected, error, self.precision, direction=direction, allowed=allowed
        )

    def paired(self, what: str, found: Any, other: Any, situation: Situation) -> list[float]:
        """The terms of the pairing of what a rule gave with `other`; `RuleCheckError` unless it has
        the structure and the shapes of that: one broadcast to another shape may be right by chance.
        """
        try:
            return list(inner_terms(found, other))
        except (TangentMismatch, TypeError, ValueError) as error:
            wanted = f"one in the form of {shown(other)}"
            raise self.failure(what, found, wanted, situation) from error

    def same(self, what: str, found: Any, expected: Any, situation: Situation) -> None:
        """Require values that agree up to rounding, as a rule may compute them differently."""
        rtol = max(100 * FLOOR[self.precision], self.tolerance.rtol)
        if not agree(found, expected, rtol, self.tolerance.atol):
            raise self.failure(what, found, expected, situation)

    def failure(
        self,
        what: str,
        found: Any,
        expected: Any,
        situation: Situation,
        why: str = "",
        instead: str = "",
    ) -> RuleCheckError:
        """The error, with the situation."""
        return RuleCheckError(
            f"{self.name}: {what}: found {shown(found)}, expected {shown(expected)}",
            where=[("in the situation", str(situation), "")],
            why=why,
            instead=[instead] if instead else [],
        )


def located(error: RuleCheckError, rule: RulePair | ForwardRule, situation: Situation) -> None:
    """Add to an error the rule that failed, and the situation if the error does not say it."""
    if not error.where:
        error.add_where("in the situation", str(situation))
    error.add_where("the rule", rule.name, rule.location)
