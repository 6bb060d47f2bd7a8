"""`check_rule`: a rule in every situation the engine may use it in.

One identity judges them all. Let c be a random cotangent of the result, c_j one of what the array
a_j holds at the end, and v a random direction of argument i. Then what the rule gives for argument
i is compared with the finite difference along v of

    phi(args) = <c, result> + sum of <c_j, a_j at the end>        over the Duplicated a_j

Each finite difference is taken once, with an estimate of its error; the situations share it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from activerules.annotations.activity import (
    Active,
    Annotation,
    Const,
    Duplicated,
    alternatives,
)
from activerules.annotations.tangents import NoTangent, is_zero
from activerules.annotations.thunks import extern
from activerules.annotations.values import make_zero
from activerules.chainrules import frule, rrule
from activerules.errors import NoRuleForActivity, RuleCheckError
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES
from activerules.rules.rule import RulePair, display_name
from activerules.testing.gradient import FLOOR, RESOLUTION, SAFETY, identical, precision_of
from activerules.testing.halves import Outcome, run_forward, run_pair
from activerules.testing.numeric import (
    directional_derivative,
    inner,
    inner_terms,
    is_differentiable,
    rand_tangent,
    shifted,
)

Kind = type[Annotation]


@dataclass(frozen=True)
class Argument:
    """An argument of `check_rule`: a value and the activities to check it with."""

    value: Any
    kinds: tuple[Kind, ...]


def arg(value: Any, activities: Any = None) -> Argument:
    """An argument of a rule: a value, and its activities (`Const | Duplicated`); by default all."""
    if activities is None:
        return Argument(value, _fitting(value))
    return Argument(value, tuple(dict.fromkeys(a.kind for a in alternatives(activities))))


def check_rule(
    f: Callable[..., Any],
    *args: Any,
    ret: Any = None,
    compiled: bool = True,
    seed: int = 0,
) -> None:
    """Check every rule of `f` at a point.

    Arguments
        f         a function with rules; its own code (or a plain function) is the reference.
        args      plain values: every activity that fits and that a rule admits; `arg(x, A | B)`:
                  these; annotations: that activity. Values are copied, never written.
        ret       the activity of the result, a class or a union of them; by default the one with a
                  derivative.
        compiled  also compile the rules; False: only interpret them, in a fraction of the time.
        seed      of the random shadows, cotangents and directions.

    Checked, of a pair: every combination of activities, each with arguments kept and with arguments
    overwritten between the halves, with and without need of the primal; interpreted always,
    compiled in every combination of activities. Shadows start non-zero. Of a forward rule: every
    combination. Of `rrule` and `frule`, where they answer: arity, and the same derivatives.
    Compared: the result and what the arguments hold after it; derivatives, with finite differences
    that come with an error estimate; Const and overwritten memory, which a rule must not touch.

    Raises
        RuleCheckError      which rule, argument and situation; found, expected.
        NoRuleForActivity   no rule serves the activities that were asked for.
    """
    RuleCheck(f, args, ret, seed).run(compiled)


@dataclass(frozen=True)
class Situation:
    """What a rule may be told of a call."""

    kinds: tuple[Kind, ...]
    result: Kind
    overwritten: tuple[bool, ...]
    needs_primal: bool = True
    compiled: bool = False

    def __str__(self) -> str:
        kinds = ", ".join(kind.__name__ for kind in self.kinds)
        facts = [f"({kinds}) -> {self.result.__name__}", "compiled" if self.compiled else ""]
        facts += ["overwritten" if any(self.overwritten) else ""]
        facts += ["" if self.needs_primal else "primal not needed"]
        return ", ".join(filter(None, facts))


class RuleCheck:
    """The checks of one function at one point."""

    def __init__(self, f: Any, args: Sequence[Any], ret: Any, seed: int) -> None:
        self.f = f
        self.name = display_name(f)
        self.arguments = [_argument(x) for x in args]
        self.asked = any(isinstance(x, Annotation | Argument) for x in args)
        self.values = tuple(a.value for a in self.arguments)
        rng = np.random.default_rng(seed)
        self.result, self.ends = self.primal(self.values)
        self.results = _result_kinds(self.result, ret)
        self.result_bar = rand_tangent(self.result, rng)
        self.starts = tuple(rand_tangent(x, rng) for x in self.values)
        self.directions = tuple(rand_tangent(x, rng) for x in self.values)
        self.precision = precision_of(self.values)
        self.slopes = self.finite_differences()

    def run(self, compiled: bool) -> None:
        """Check the pairs, the forward rules, and the direct calls."""
        halves = {half for rule in RULES.rules_for(self.f) for half in rule.halves}
        served = 0
        if "reverse" in halves:
            served += self.check_pairs(compiled)
        if "forward" in halves:
            served += self.check_forward(compiled)
        served += self.check_direct()
        if not served:
            raise NoRuleForActivity(f"{self.name} has no rule that serves these arguments")

    # --- the reference ---

    def primal(self, values: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """The function on copies: its result, and the arguments after it."""
        copies = tuple(shifted(x, 0.0, None) for x in values)
        return self.f(*copies), copies

    def terms(self, *values: Any) -> np.ndarray[Any, Any]:
        """The parts of phi: of the result, and of each argument at the end."""
        result, ends = self.primal(values)
        parts = [inner(self.result_bar, result)]
        return np.array(parts + [inner(c, a) for c, a in zip(self.starts, ends, strict=True)])

    def finite_differences(self) -> list[tuple[Any, float]]:
        """The derivative of every part along the direction of every argument, with its error."""
        found = []
        for i, direction in enumerate(self.directions):
            tangents = tuple(direction if k == i else None for k in range(len(self.values)))
            if not is_differentiable(self.values[i]):
                found.append((np.zeros(len(self.values) + 1), 0.0))
                continue
            eps = float(np.finfo(self.precision).eps)
            found.append(directional_derivative(self.terms, self.values, tangents, eps=eps))
        return found

    def written(self, i: int) -> bool:
        """Whether the function writes into argument `i`."""
        return not identical(self.values[i], self.ends[i])

    def expected(self, i: int, situation: Situation) -> tuple[float, float]:
        """The derivative of phi by argument `i`, and the error it may have."""
        parts, error = self.slopes[i]
        total = parts[0] if situation.result is not Const else 0.0
        for j, kind in enumerate(situation.kinds):
            if kind is Duplicated and self.written(j):
                total += parts[1 + j]
        return float(total), error

    # --- pairs ---

    def situations(self) -> Iterator[tuple[tuple[Kind, ...], Kind]]:
        """Every combination of activities in which something is differentiated."""
        for result in self.results:
            for kinds in itertools.product(*(a.kinds for a in self.arguments)):
                if any(kind is not Const for kind in kinds):
                    yield kinds, result

    def check_pairs(self, compiled: bool) -> int:
        """Check every combination; gives how many a rule served."""
        served = 0
        for kinds, result in self.situations():
            pair = self.pair(kinds, result)
            if pair is None:
                continue
            served += 1
            memory = tuple(isinstance(x, np.ndarray) for x in self.values)
            kept = (False,) * len(memory)
            for overwritten in dict.fromkeys([kept, memory]):
                for needs_primal in (True, False):
                    self.check_pair(pair, Situation(kinds, result, overwritten, needs_primal))
            if compiled:
                self.check_pair(pair, Situation(kinds, result, memory, compiled=True))
        return served

    def pair(self, kinds: tuple[Kind, ...], result: Kind) -> RulePair | None:
        """The pair that serves; None if none does and nothing else was asked for."""
        types = [numba.typeof(value) for value in self.values]
        try:
            return RULES.find(self.f, types, numba.typeof(self.result), kinds, result)
        except NoRuleForActivity:
            if self.asked:
                raise
            return None

    def check_pair(self, pair: RulePair, situation: Situation) -> None:
        """Check one run."""
        copies = tuple(shifted(x, 0.0, None) for x in self.values)
        shadows = tuple(
            shifted(c, 0.0, None) if kind is Duplicated else make_zero(x)
            for x, c, kind in zip(self.values, self.starts, situation.kinds, strict=True)
        )
        annotated = [
            _annotated(kind, x, shadow)
            for kind, x, shadow in zip(pair.arguments, copies, shadows, strict=True)
        ]
        bar = make_zero(self.result) if situation.result is Const else self.result_bar
        config = RuleConfig(overwritten=situation.overwritten, needs_primal=situation.needs_primal)
        run = run_pair(pair, config, annotated, bar, compiled=situation.compiled)
        self.check_primal(run, copies, situation)
        for i, kind in enumerate(situation.kinds):
            if kind is not Const:
                found = shadows[i] if kind is Duplicated else run.entries[i]
                self.compare_reverse(i, found, situation)

    def check_primal(self, run: Outcome, copies: Sequence[Any], situation: Situation) -> None:
        """The result, and the arguments as the function itself leaves them."""
        if run.primal is not None or situation.needs_primal:
            self.same("result", run.primal, self.result, situation)
        for i, (copy, end) in enumerate(zip(copies, self.ends, strict=True)):
            if not situation.overwritten[i]:
                self.same(f"argument {i} after the rule", copy, end, situation)
        if not run.untouched:
            raise self.failure(
                "memory overwritten between the halves", "changed", "as it was", situation
            )

    def compare_reverse(self, i: int, found: Any, situation: Situation) -> None:
        """The cotangent of argument `i` along its direction."""
        if situation.kinds[i] is Active and found is None:
            raise self.failure(
                f"derivative of argument {i}", None, "a value: it is Active", situation
            )
        terms = list(inner_terms(found, self.directions[i]))
        if situation.kinds[i] is Duplicated and not self.written(i):
            terms += [-term for term in inner_terms(self.starts[i], self.directions[i])]
        self.compare(i, terms, *self.expected(i, situation), situation)

    # --- forward ---

    def check_forward(self, compiled: bool) -> int:
        """Check every combination of Const and Duplicated."""
        choices = [(Const, Duplicated) if is_differentiable(x) else (Const,) for x in self.values]
        types = [numba.typeof(value) for value in self.values]
        served = 0
        for kinds in itertools.product(*choices):
            if all(kind is Const for kind in kinds):
                continue
            try:
                rule = RULES.find_forward(
                    self.f, types, numba.typeof(self.result), kinds, Duplicated, 1
                )
            except NoRuleForActivity:
                continue
            served += 1
            for how in (False, True) if compiled else (False,):
                situation = Situation(kinds, Duplicated, (False,) * len(kinds), compiled=how)
                self.check_forward_run(rule, situation)
        return served

    def check_forward_run(self, rule: Any, situation: Situation) -> None:
        """Check one run of a forward rule."""
        copies = tuple(shifted(x, 0.0, None) for x in self.values)
        tangents = [
            shifted(v, 0.0, None) if kind is Duplicated else make_zero(x)
            for v, kind, x in zip(self.directions, situation.kinds, self.values, strict=True)
        ]
        annotated = [
            _annotated(kind, x, v)
            for kind, x, v in zip(rule.arguments, copies, tangents, strict=True)
        ]
        config = RuleConfig(overwritten=(False,) * len(copies))
        run = run_forward(rule, config, annotated, compiled=situation.compiled)
        self.same("result", run.primal, self.result, situation)
        self.compare_forward(run.entries, situation)

    def compare_forward(self, tangent: Any, situation: Situation) -> None:
        """The tangent of the result against the cotangent of the reverse check."""
        active = [i for i, kind in enumerate(situation.kinds) if kind is not Const]
        expected = math.fsum(float(self.slopes[i][0][0]) for i in active)
        error = math.fsum(self.slopes[i][1] for i in active)
        terms = list(inner_terms(self.result_bar, tangent))
        self.compare(active[0], terms, expected, error, situation, "tangent of the result")

    # --- direct calls ---

    def check_direct(self) -> int:
        """Check `rrule` and `frule` where they answer."""
        kinds = tuple(Duplicated if is_differentiable(x) else Const for x in self.values)
        situation = Situation(kinds, Duplicated, (False,) * len(kinds))
        copies = tuple(shifted(x, 0.0, None) for x in self.values)
        pulled = rrule(self.f, *copies)
        if pulled is not None:
            self.same("result of rrule", pulled[0], self.result, situation)
            self.check_cotangents(extern(pulled[1](self.result_bar)), situation)
        own = [NoTangent() if v is None else v for v in self.directions]
        pushed = frule((NoTangent(), *own), self.f, *copies)
        if pushed is not None and any(kind is not Const for kind in kinds):
            self.same("result of frule", pushed[0], self.result, situation)
            dy = extern(pushed[1])
            self.compare_forward(None if is_zero(dy) else dy, situation)
        return (pulled is not None) + (pushed is not None)

    def check_cotangents(self, entries: tuple[Any, ...], situation: Situation) -> None:
        """What a pullback returns: one entry for the function, one per argument."""
        if len(entries) != len(self.values) + 1:
            raise self.failure(
                "pullback", f"{len(entries)} entries", len(self.values) + 1, situation
            )
        for i, entry in enumerate(entries[1:]):
            if situation.kinds[i] is Const:
                continue
            terms = [] if is_zero(entry) else list(inner_terms(entry, self.directions[i]))
            parts, error = self.slopes[i]
            self.compare(i, terms, float(parts[0]), error, situation)

    # --- comparison ---

    def compare(
        self,
        i: int,
        terms: Sequence[float],
        expected: float,
        error: float,
        situation: Situation,
        what: str = "",
    ) -> None:
        """A derivative found against the finite difference."""
        found = math.fsum(terms)
        scale = max(abs(expected), math.fsum(map(abs, terms)))
        if not error <= RESOLUTION[self.precision] * max(scale, 1e-3):
            raise self.failure(
                f"finite differences of argument {i}",
                f"{expected:.10g} ± {error:.1e}",
                "an error that resolves the derivative: choose another point",
                situation,
            )
        if not abs(found - expected) <= SAFETY * error + FLOOR[self.precision] * scale:
            raise self.failure(
                what or f"derivative of argument {i} along a random direction",
                f"{found:.12g}",
                f"finite differences {expected:.12g} ± {error:.1e}",
                situation,
                f"direction {self.directions[i]}",
            )

    def same(self, what: str, found: Any, expected: Any, situation: Situation) -> None:
        """Values that must agree to rounding: a rule may compute them in another way."""
        tolerance = 100 * FLOOR[self.precision]
        agree = identical(found, expected) or (
            is_differentiable(expected)
            and np.shape(found) == np.shape(expected)
            and np.allclose(found, expected, rtol=tolerance, atol=0.0, equal_nan=True)
        )
        if not agree:
            raise self.failure(what, found, expected, situation)

    def failure(
        self, what: str, found: Any, expected: Any, situation: Situation, why: str = ""
    ) -> RuleCheckError:
        """The error, with the situation."""
        return RuleCheckError(
            f"{self.name}: {what}: found {found}, expected {expected}",
            where=[("in the situation", str(situation), "")],
            why=why,
        )


def _annotated(kind: Any, x: Any, shadow: Any) -> Annotation:
    return Duplicated(x, shadow) if kind is Duplicated else kind(x)


def _argument(x: Any) -> Argument:
    if isinstance(x, Argument):
        return x
    if isinstance(x, Annotation):
        return Argument(x.fields[0], (type(x),))
    return Argument(x, _fitting(x))


def _fitting(value: Any) -> tuple[Kind, ...]:
    """The activities a plain value may have."""
    if not is_differentiable(value):
        return (Const,)
    return (Const, Duplicated) if isinstance(value, np.ndarray) else (Const, Active)


def _result_kinds(result: Any, ret: Any) -> tuple[Kind, ...]:
    if ret is not None:
        return tuple(dict.fromkeys(a.kind for a in alternatives(ret)))
    return (_fitting(result)[-1],)
