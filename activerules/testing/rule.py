"""`check_rule`: checks of a rule in every situation in which the engine may use it.

One identity covers all situations. Let c be a random cotangent of the result, c_j one of the final
contents of the array a_j, and v a random direction of argument i. Then the derivative by the rule
with respect to argument i is compared with the finite difference along v of

    phi(args) = <c, result> + sum of <c_j, a_j at the end>        over the Duplicated a_j

Each finite difference is taken once, with an estimate of its error; the situations share it.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numba
import numpy as np

from activerules.annotations.activity import Const, Duplicated, MixedDuplicated
from activerules.annotations.tangents import NoTangent, is_zero
from activerules.annotations.thunks import extern
from activerules.annotations.values import make_zero
from activerules.chainrules import frule, rrule
from activerules.errors import NoRuleForActivity, RuleCheckError
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES
from activerules.rules.rule import ForwardRule, RulePair, display_name
from activerules.testing.chosen import Tolerance, directions_of
from activerules.testing.gradient import (
    FLOOR,
    RESOLUTION,
    RETURNED,
    SAFETY,
    SHADOWED,
    agree,
    arrays_of,
    completed,
    identical,
    precision_of,
)
from activerules.testing.halves import (
    PairOutcome,
    arrays_in,
    is_like,
    require_noalias,
    run_forward,
    run_pair,
    start_of,
    tangent_of,
)
from activerules.testing.numeric import (
    directional_derivative,
    inner,
    inner_terms,
    is_differentiable,
    rand_tangent,
    scaled,
    shifted,
)
from activerules.testing.schemes import FiniteDifference
from activerules.testing.situations import (
    CheckedArgument,
    Kind,
    Lane,
    Situation,
    activities,
    annotate,
    arg,
    arguments_of,
    is_explicit,
    require_known,
    result_kinds,
)
from activerules.testing.trees import is_object, shown

__all__ = ["RuleCheck", "arg", "check_rule"]

# A batch is two derivatives in one call. Derivatives are linear, so the second lane needs no
# reference of its own; a rule that consumes its tape, or mixes up lanes, fails there.
_SCALES = (1.0, -0.5)

# The locations of the rules that were checked in this process, for the plugin of pytest.
CHECKED: set[str] = set()


def check_rule(
    f: Callable[..., Any],
    *args: Any,
    ret: Any = None,
    compiled: bool = True,
    seed: int = 0,
    directions: Sequence[Any] | Mapping[str, Any] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    fdm: FiniteDifference | None = None,
    **kwargs: Any,
) -> None:
    """Check every rule of `f` at a point.

    Arguments
        f         a function with rules; its own code (or a plain function) is the reference.
        args      plain values: every activity that fits and that a rule admits; `arg(x, A | B)`:
                  these activities; annotations: that activity. Values are copied, never written.
                  Keyword arguments (`kwargs`) are put in order; a default that is left out is
                  Const.
        ret       the activity of the result, a class or a union of them; by default the one with a
                  derivative.
        compiled  also compile the rules; False: only interpret them, in a fraction of the time.
        seed      of the random shadows, cotangents and directions.
        directions  one per argument, in order or by name, of the type and shape of the argument;
                  None, or left out: a random one. For arguments that cannot vary freely: a
                  symmetric direction for a symmetric matrix.
        rtol, atol  tolerances of derivatives and values, in addition to the error of the finite
                  differences: for functions that are noisy, or iterate to a tolerance.
        fdm       the scheme of the finite differences: `forward_fdm(5)` for an argument at a
                  boundary, `central_fdm(3, max_range=1e-3)` near one.

    Objects are instances of a jitclass, `numba.typed.List` and `Dict`: the direction is such an
    object, with a number in each float. Python's lists and dictionaries are refused.

    Checked for a pair: every combination of activities, each with arguments kept and with arguments
    overwritten between the halves, with and without `needs_primal`; always interpreted, and
    compiled in every combination of activities. Shadows start non-zero. For a forward rule: every
    combination. Both in batches of two: a second cotangent on the same tape, and rules for
    BatchDuplicated. For `rrule` and `frule`, if they exist: arity, and the same derivatives.
    Compared: the result and the final contents of arguments; derivatives, with finite differences
    and their error estimates, and between the two modes: <ȳ, ẏ> = <x̄, ẋ>; Const and overwritten
    memory, which a rule must not change.

    Raises
        RuleCheckError      with rule, argument and situation, found and expected value.
        NoRuleForActivity   no rule serves the activities that were asked for.
        ValueError          directions do not fit the arguments.
    """
    arguments = arguments_of(f, args, kwargs)
    asked = is_explicit(args, kwargs)
    tolerance = Tolerance(rtol, atol, fdm)
    RuleCheck(f, arguments, ret, seed, asked, directions, tolerance).run(compiled)


class RuleCheck:
    """The checks of one function at one point."""

    def __init__(
        self,
        f: Any,
        arguments: Sequence[CheckedArgument],
        ret: Any,
        seed: int,
        asked: bool,
        directions: Sequence[Any] | Mapping[str, Any] | None = None,
        tolerance: Tolerance | None = None,
    ) -> None:
        self.f = f
        self.tolerance = tolerance or Tolerance()
        self.name = display_name(f)
        self.arguments = arguments
        self.asked = asked
        self.values = tuple(a.value for a in self.arguments)
        for each in self.arguments:
            require_known(each)
        rng = np.random.default_rng(seed)
        self.result, self.ends = self.primal(self.values)
        self.results = result_kinds(self.result, ret)
        self.result_bar = rand_tangent(self.result, rng)
        self.starts = tuple(start_of(rand_tangent(x, rng)) for x in self.values)
        random = [rand_tangent(x, rng) for x in self.values]
        self.directions = directions_of(f, random, directions)
        self.along = "a random direction" if directions is None else "the direction asked for"
        self.precision = precision_of(self.values)
        self.slopes = self.finite_differences()
        self.reverse_terms: dict[tuple[int, ...], list[float]] = {}

    def run(self, compiled: bool) -> None:
        """Check the pairs, the forward rules, and the direct calls."""
        require_noalias(self.f, self.result, self.ends)
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
        """The terms of phi: for the result, and for the final contents of each argument."""
        result, ends = self.primal(values)
        parts = [inner(self.result_bar, result)]
        return np.array(parts + [inner(c, a) for c, a in zip(self.starts, ends, strict=True)])

    def finite_differences(self) -> list[tuple[Any, float]]:
        """The derivative of every term along the direction of every argument, with its error."""
        found = []
        for i, direction in enumerate(self.directions):
            tangents = tuple(direction if k == i else None for k in range(len(self.values)))
            if not is_differentiable(self.values[i]):
                found.append((np.zeros(len(self.values) + 1), 0.0))
                continue
            eps = float(np.finfo(self.precision).eps)
            found.append(
                directional_derivative(
                    self.terms, self.values, tangents, eps=eps, fdm=self.tolerance.fdm
                )
            )
        return found

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

    # --- pairs ---

    def check_pairs(self, compiled: bool) -> int:
        """Check every combination; return how many were served by a rule."""
        served = 0
        for kinds, result in itertools.product(activities(self.arguments), self.results):
            pair = self.pair(kinds, result)
            if pair is None:
                continue
            served += 1
            memory = tuple(any(True for _ in arrays_in(x)) for x in self.values)
            for overwritten in dict.fromkeys([(False,) * len(memory), memory]):
                for needs_primal in (True, False):
                    self.check_pair(pair, Situation(kinds, result, overwritten, needs_primal))
            if compiled:
                self.check_pair(pair, Situation(kinds, result, memory, compiled=True))
            CHECKED.add(pair.location)
        return served

    def pair(self, kinds: tuple[Kind, ...], result: Kind) -> RulePair | None:
        """The pair that serves; None if none does and the activities were not asked for."""
        types = [numba.typeof(value) for value in self.values]
        try:
            return RULES.find(self.f, types, numba.typeof(self.result), kinds, result)
        except NoRuleForActivity:
            if self.asked:
                raise
            return None

    def check_pair(self, pair: RulePair, situation: Situation) -> None:
        """Check one run; if it fails because of an overwritten argument, say which."""
        try:
            run, lanes, copies = self.run_pair(pair, situation)
            self.check_primal(run, copies, situation)
            self.compare_lanes(run, lanes, situation)
        except Exception as error:
            read = self.read_unsaved(pair, situation)
            if not read:
                raise
            reverse = getattr(pair.reverse, "py_func", pair.reverse)
            names = list(inspect.signature(reverse).parameters)[-len(self.values) :]
            which = ", ".join(f"`{names[i]}`" for i in read)
            raise RuleCheckError(
                f"{self.name}: `reverse` reads {which}, which may be overwritten: "
                f"add {'it' if len(read) == 1 else 'them'} to `saves`",
                where=[("in the situation", str(situation), pair.location)],
                why=str(error).partition("\n")[0],
            ) from error

    def read_unsaved(self, pair: RulePair, situation: Situation) -> list[int]:
        """The arguments which, overwritten alone, make right derivatives wrong, or raise errors."""
        indices = range(len(self.values))
        kept = replace(situation, overwritten=(False,) * len(indices))
        alone = {
            i: replace(kept, overwritten=tuple(k == i for k in indices))
            for i in indices
            if situation.overwritten[i] and i not in pair.saves
        }
        if not alone or self.fails(pair, kept):
            return []
        return [i for i, here in alone.items() if self.fails(pair, here)]

    def fails(self, pair: RulePair, situation: Situation) -> bool:
        """Whether derivatives are wrong, or the rule raises an error."""
        try:
            run, lanes, _ = self.run_pair(pair, situation)
            self.compare_lanes(run, lanes, situation)
        except Exception:
            return True
        return False

    def run_pair(
        self, pair: RulePair, situation: Situation
    ) -> tuple[PairOutcome, list[Lane], tuple[Any, ...]]:
        """One run, with the second half for each lane: its outcome, the lanes, and the final
        arguments.
        """
        copies = tuple(shifted(x, 0.0, None) for x in self.values)
        lanes = [self.reverse_lane(pair, copies, situation, scale) for scale in _SCALES]
        config = RuleConfig(
            overwritten=situation.overwritten,
            needs_primal=situation.needs_primal,
            written=tuple(self.written(i) for i in range(len(copies))),
        )
        return run_pair(pair, config, lanes, compiled=situation.compiled), lanes, copies

    def compare_lanes(self, run: PairOutcome, lanes: Sequence[Lane], situation: Situation) -> None:
        """Compare the derivatives of each lane with finite differences."""
        for k, (lane, entries) in enumerate(zip(lanes, run.entries, strict=True)):
            here = replace(situation, lane=k)
            terms = {
                i: self.compare_reverse(i, lane, entries[i], here) for i in situation.differentiated
            }
            if lane.scale == 1.0 and situation.result is self.results[0]:
                self.reverse_terms[situation.differentiated] = list(
                    itertools.chain(*terms.values())
                )

    def reverse_lane(
        self, pair: RulePair, copies: Sequence[Any], situation: Situation, scale: float
    ) -> Lane:
        """The arguments with shadows that start non-zero, and the cotangent of the result."""
        shadows = tuple(
            completed(scaled(c, scale) if kind in SHADOWED else None, make_zero(x))
            for x, c, kind in zip(self.values, self.starts, situation.kinds, strict=True)
        )
        annotated = tuple(map(annotate, pair.arguments, copies, shadows))
        is_const = situation.result is Const
        bar = make_zero(self.result) if is_const else scaled(self.result_bar, scale)
        return Lane(annotated, shadows, bar, scale)

    def check_primal(self, run: PairOutcome, copies: Sequence[Any], situation: Situation) -> None:
        """Compare the result and the final arguments with those of the function itself."""
        if run.primal is not None or situation.needs_primal:
            self.same("result", run.primal, self.result, situation)
        for i, (copy, end) in enumerate(zip(copies, self.ends, strict=True)):
            if not situation.overwritten[i]:
                self.same(f"argument {i} after the rule", copy, end, situation)
        if not run.untouched:
            raise self.failure(
                "memory overwritten between the halves", "changed", "as it was", situation
            )

    def compare_reverse(self, i: int, lane: Lane, entry: Any, situation: Situation) -> list[float]:
        """Compare the cotangent of argument `i` along its direction; return its terms."""
        kind = situation.kinds[i]
        found = entry if kind in RETURNED else lane.shadows[i]
        if found is None:
            raise self.failure(
                f"derivative of argument {i}", None, "a value: it is Active", situation
            )
        if kind is MixedDuplicated:
            found = completed(entry, arrays_of(lane.shadows[i]))
        direction = self.directions[i]
        if isinstance(direction, tuple) and not is_like(found, direction):
            wanted = f"a tuple of {len(direction)} entries, None for what is no float"
            raise self.failure(f"derivative of argument {i}", found, wanted, situation)
        terms = list(inner_terms(found, direction))
        if kind in SHADOWED and not self.written(i):
            start = inner_terms(self.starts[i], self.directions[i])
            terms += [-lane.scale * term for term in start]
        expected, error = self.expected(i, situation)
        self.compare(i, terms, lane.scale * expected, error, situation)
        return terms

    # --- forward ---

    def check_forward(self, compiled: bool) -> int:
        """Check every combination of Const and Duplicated."""
        served = 0
        for kinds in activities(self.arguments, forward=True):
            single, batch = self.forward_rule(kinds, 1), self.forward_rule(kinds, 2)
            rules = [(single, 1)] if single is not None else []
            rules += [(batch, 2)] if batch is not None and not batch.looped else []
            served += bool(rules)
            for (rule, width), how in itertools.product(rules, (False, True)[: 1 + compiled]):
                result = Const if self.result is None else Duplicated
                situation = Situation(kinds, result, (False,) * len(kinds), compiled=how)
                self.check_forward_run(rule, situation, width)
            CHECKED.update(rule.location for rule, _ in rules)
        return served

    def forward_rule(self, kinds: tuple[Kind, ...], width: int) -> ForwardRule | None:
        """The forward rule that serves a number of tangents; None if none does."""
        types = [numba.typeof(value) for value in self.values]
        result = Const if self.result is None else Duplicated
        try:
            return RULES.find_forward(
                self.f, types, numba.typeof(self.result), kinds, result, width
            )
        except NoRuleForActivity:
            return None

    def check_forward_run(self, rule: ForwardRule, situation: Situation, width: int) -> None:
        """Check one run of a forward rule."""
        copies = tuple(shifted(x, 0.0, None) for x in self.values)
        scales = _SCALES[:width]
        lanes = [
            [
                completed(None if kind is Const else scaled(v, scale), make_zero(x))
                for v, kind, x in zip(self.directions, situation.kinds, self.values, strict=True)
            ]
            for scale in scales
        ]
        shadows = [each if width > 1 else each[0] for each in zip(*lanes, strict=True)]
        annotated = list(map(annotate, rule.arguments, copies, shadows))
        config = RuleConfig(overwritten=(False,) * len(copies), width=width)
        run = run_forward(rule, config, annotated, compiled=situation.compiled)
        self.same("result", run.primal, self.result, situation)
        for k, (scale, tangent) in enumerate(zip(scales, run.entries, strict=True)):
            here = replace(situation, lane=k)
            self.compare_forward(tangent, lanes[k], scale, here)

    def compare_forward(
        self, tangent: Any, shadows: Sequence[Any], scale: float, situation: Situation
    ) -> None:
        """Compare the tangents of the result and of written arguments, contracted with the
        cotangents of the reverse check, with finite differences and with the reverse.
        """
        active = situation.differentiated
        written = [j for j in active if self.written(j)]
        expected = [self.expected(i, situation) for i in active]
        error = math.fsum(each[1] for each in expected)
        terms = list(inner_terms(self.result_bar, tangent))
        for j in written:
            terms += inner_terms(self.starts[j], shadows[j])
        total = scale * math.fsum(each[0] for each in expected)
        self.compare(active[0], terms, total, error, situation, "tangent of the result")
        if scale == 1.0 and active in self.reverse_terms:
            self.compare_modes(terms, self.reverse_terms[active], situation)

    def compare_modes(
        self, forward: list[float], reverse: list[float], situation: Situation
    ) -> None:
        """Compare <ȳ, ẏ> of the forward rule with <x̄, ẋ> of the pair, up to rounding."""
        pushed, pulled = math.fsum(forward), math.fsum(reverse)
        scale = math.fsum(map(abs, forward)) + math.fsum(map(abs, reverse))
        allowed = FLOOR[self.precision] * scale + self.tolerance.of(pulled)
        if not abs(pushed - pulled) <= allowed:
            raise self.failure(
                "forward against reverse",
                f"<ȳ, ẏ> = {pushed:.12g}",
                f"<x̄, ẋ> = {pulled:.12g} of the pair",
                situation,
            )

    # --- direct calls ---

    def check_direct(self) -> int:
        """Check `rrule` and `frule`, if they exist; for them objects are constants."""
        varies = [
            is_differentiable(a.value) and not is_object(a.value) and a.kinds != (Const,)
            for a in self.arguments
        ]
        kinds = tuple(Duplicated if each else Const for each in varies)
        situation = Situation(kinds, Duplicated, (False,) * len(kinds))
        copies = tuple(shifted(x, 0.0, None) for x in self.values)
        pulled = rrule(self.f, *copies)
        if pulled is not None:
            self.same("result of rrule", pulled[0], self.result, situation)
            self.check_cotangents(extern(pulled[1](self.result_bar)), situation)
        own = [tangent_of(v, each) for v, each in zip(self.directions, varies, strict=True)]
        copies = tuple(shifted(x, 0.0, None) for x in self.values)  # rrule may have written to them
        pushed = frule((NoTangent(), *own), self.f, *copies)
        if pushed is not None and any(varies):
            self.same("result of frule", pushed[0], self.result, situation)
            self.compare_pushed(extern(pushed[1]), situation)
        return (pulled is not None) + (pushed is not None)

    def compare_pushed(self, dy: Any, situation: Situation) -> None:
        """Compare the tangent that an frule returns; what it writes into arguments is ignored."""
        active = situation.differentiated
        terms = [] if is_zero(dy) else list(inner_terms(self.result_bar, dy))
        expected = math.fsum(float(self.slopes[i][0][0]) for i in active)
        error = math.fsum(self.slopes[i][1] for i in active)
        self.compare(active[0], terms, expected, error, situation, "tangent of the result")

    def check_cotangents(self, entries: tuple[Any, ...], situation: Situation) -> None:
        """Check the entries that a pullback returns: one for the function, one per argument."""
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
        """Compare a derivative with the finite difference."""
        found = math.fsum(terms)
        scale = max(abs(expected), math.fsum(map(abs, terms)))
        allowed = self.tolerance.of(expected)
        if not error <= max(RESOLUTION[self.precision] * max(scale, 1e-3), allowed):
            raise self.failure(
                f"finite differences of argument {i}",
                f"{expected:.10g} ± {error:.1e}",
                "an error that resolves the derivative: choose another point, or pass fdm=, rtol=",
                situation,
            )
        if not abs(found - expected) <= SAFETY * error + FLOOR[self.precision] * scale + allowed:
            raise self.failure(
                what or f"derivative of argument {i} along {self.along}",
                f"{found:.12g}",
                f"finite differences {expected:.12g} ± {error:.1e}",
                situation,
                f"direction {shown(self.directions[i])}",
            )

    def same(self, what: str, found: Any, expected: Any, situation: Situation) -> None:
        """Require values that agree up to rounding, as a rule may compute them differently."""
        rtol = max(100 * FLOOR[self.precision], self.tolerance.rtol)
        if not agree(found, expected, rtol, self.tolerance.atol):
            raise self.failure(what, found, expected, situation)

    def failure(
        self, what: str, found: Any, expected: Any, situation: Situation, why: str = ""
    ) -> RuleCheckError:
        """The error, with the situation."""
        return RuleCheckError(
            f"{self.name}: {what}: found {shown(found)}, expected {shown(expected)}",
            where=[("in the situation", str(situation), "")],
            why=why,
        )
