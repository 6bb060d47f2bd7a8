"""Checks of pairs, for `check_rule`: every combination of activities, interpreted and compiled,
with arguments kept and overwritten between the halves.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from activerules.annotations.activity import RETURNED, SHADOWED, Const, MixedDuplicated, annotate
from activerules.callables import python_function
from activerules.errors import NoRuleForActivity, RuleCheckError
from activerules.numba_ext.rules.tapes import reads_value
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES
from activerules.rules.rule import RulePair
from activerules.testing.gradient import arrays_of, completed
from activerules.testing.halves import PairOutcome, arrays_in, is_like, run_pair
from activerules.testing.numeric import inner_terms, scaled
from activerules.testing.reference import SCALES, Reference, located
from activerules.testing.situations import Kind, Lane, Situation, activities
from activerules.testing.trees import zero_of


class PairCheck:
    """The checks of the pairs of one function at one point.

    explicit  whether the caller asked for activities, which a rule must then serve
    terms     the terms of <x̄, ẋ> by the arguments that vary, for the comparison with forward mode
    """

    def __init__(self, reference: Reference, *, explicit: bool) -> None:
        self.ref = reference
        self.explicit = explicit
        self.terms: dict[tuple[int, ...], list[float]] = {}

    def run(self, compiled: bool) -> set[str]:
        """Check every combination; return the locations of the pairs that served one."""
        locations: set[str] = set()
        for kinds, result in itertools.product(activities(self.ref.arguments), self.ref.results):
            pair = self.pair(kinds, result)
            if pair is None:
                continue
            memory = tuple(any(True for _ in arrays_in(x)) for x in self.ref.values)
            for overwritten in dict.fromkeys([(False,) * len(memory), memory]):
                for needs_primal in (True, False):
                    self.check_pair(pair, Situation(kinds, result, overwritten, needs_primal))
            if compiled:
                self.check_pair(pair, Situation(kinds, result, memory, compiled=True))
            locations.add(pair.location)
        return locations

    def pair(self, kinds: tuple[Kind, ...], result: Kind) -> RulePair | None:
        """The pair that serves; None if none does and the activities were not asked for."""
        try:
            return RULES.find(self.ref.f, self.ref.types, (*kinds, result))
        except NoRuleForActivity:
            if self.explicit:
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
                if isinstance(error, RuleCheckError):
                    located(error, pair, situation)
                raise
            reverse = python_function(pair.reverse)
            names = list(inspect.signature(reverse).parameters)[-len(self.ref.values) :]
            which = ", ".join(f"`{names[i]}`" for i in read)
            raise RuleCheckError(
                f"{self.ref.name}: `reverse` reads {which}, which may be overwritten: "
                f"add {'it' if len(read) == 1 else 'them'} to `saves`",
                where=[("in the situation", str(situation), pair.location)],
                why=str(error).partition("\n")[0],
            ) from error

    def read_unsaved(self, pair: RulePair, situation: Situation) -> list[int]:
        """The arguments which, overwritten alone, make right derivatives wrong, or raise errors,
        where the rule is right if they are only said to be overwritten.
        """
        indices = range(len(self.ref.values))
        untouched = replace(situation, overwritten=(False,) * len(indices))
        alone = {
            i: replace(untouched, overwritten=tuple(k == i for k in indices))
            for i in indices
            if situation.overwritten[i] and i not in pair.saves
        }
        if not alone or self.fails(pair, untouched):
            return []
        failing = {i: here for i, here in alone.items() if self.fails(pair, here)}
        return [i for i, here in failing.items() if not self.fails(pair, here, overwrite=False)]

    def fails(self, pair: RulePair, situation: Situation, *, overwrite: bool = True) -> bool:
        """Whether derivatives are wrong, or the rule raises an error."""
        try:
            run, lanes, _ = self.run_pair(pair, situation, overwrite=overwrite)
            self.compare_lanes(run, lanes, situation)
        except Exception:
            return True
        return False

    def run_pair(
        self, pair: RulePair, situation: Situation, *, overwrite: bool = True
    ) -> tuple[PairOutcome, list[Lane], tuple[Any, ...]]:
        """One run, with the second half for each lane: its outcome, the lanes, and the final
        arguments.
        """
        copies = self.ref.copies()
        lanes = [self.reverse_lane(pair, copies, situation, scale) for scale in (*SCALES, 0.0)]
        config = RuleConfig(
            overwritten=situation.overwritten,
            needs_primal=situation.needs_primal
            or pair.keeps_result
            or (pair.result in SHADOWED and reads_value(pair.reverse)),
            written=tuple(self.ref.written(i) for i in range(len(copies))),
        )
        run = run_pair(pair, config, lanes, compiled=situation.compiled, overwrite=overwrite)
        return run, lanes, copies

    def compare_lanes(self, run: PairOutcome, lanes: Sequence[Lane], situation: Situation) -> None:
        """Compare the derivatives of each lane with finite differences."""
        for k, (lane, entries) in enumerate(zip(lanes, run.entries, strict=True)):
            here = replace(situation, lane=k)
            terms = {
                i: self.compare_reverse(i, lane, entries[i], here) for i in situation.differentiated
            }
            if lane.scale == 1.0 and situation.result is self.ref.results[0]:
                self.terms[situation.differentiated] = list(itertools.chain(*terms.values()))

    def reverse_lane(
        self, pair: RulePair, copies: Sequence[Any], situation: Situation, scale: float
    ) -> Lane:
        """The arguments with shadows that start non-zero, and the cotangent of the result."""
        shadows = tuple(
            completed(scaled(c, scale) if kind in SHADOWED else None, zero_of(x))
            for x, c, kind in zip(self.ref.values, self.ref.starts, situation.kinds, strict=True)
        )
        annotated = tuple(map(annotate, pair.arguments, copies, shadows))
        is_const = situation.result is Const
        bar = zero_of(self.ref.result) if is_const else scaled(self.ref.result_bar, scale)
        return Lane(annotated, shadows, bar, scale)

    def check_primal(self, run: PairOutcome, copies: Sequence[Any], situation: Situation) -> None:
        """Compare the result and the final arguments with those of the function itself."""
        if run.primal is not None or situation.needs_primal:
            self.ref.same("result", run.primal, self.ref.result, situation)
            if situation.compiled:
                dtypes = [[a.dtype for a in arrays_in(y)] for y in (run.primal, self.ref.result)]
                if dtypes[0] != dtypes[1]:
                    raise self.ref.failure("dtype of the result", dtypes[0], dtypes[1], situation)
        for i, (copy, end) in enumerate(zip(copies, self.ref.ends, strict=True)):
            if not situation.overwritten[i]:
                self.ref.same(f"argument {i} after the rule", copy, end, situation)
        if not run.untouched:
            raise self.ref.failure(
                "memory overwritten between the halves", "changed", "as it was", situation
            )

    def compare_reverse(self, i: int, lane: Lane, entry: Any, situation: Situation) -> list[float]:
        """Compare the cotangent of argument `i` along its direction; return its terms."""
        kind = situation.kinds[i]
        found = entry if kind in RETURNED else lane.shadows[i]
        if found is None:
            raise self.ref.failure(
                f"derivative of argument {i}", None, "a value: it is Active", situation
            )
        if kind is MixedDuplicated:
            found = completed(entry, arrays_of(lane.shadows[i]))
        direction = self.ref.directions[i]
        if isinstance(direction, tuple) and not is_like(found, direction):
            wanted = f"a tuple of {len(direction)} entries, None for what is not a float"
            raise self.ref.failure(f"derivative of argument {i}", found, wanted, situation)
        terms = self.ref.paired(f"derivative of argument {i}", found, direction, situation)
        expected, error = self.ref.expected(i, situation)
        expected, error = expected * lane.scale, error * abs(lane.scale)
        advice = ""
        if kind in SHADOWED and not self.ref.written(i):
            if self.ref.compared(i, terms, expected, error).agrees:
                advice = "add to the shadow, x.dval += …, where this rule replaces what is in it"
            start = inner_terms(self.ref.starts[i], self.ref.directions[i])
            terms += [-lane.scale * term for term in start]
        self.ref.compare(i, terms, expected, error, situation, instead=advice)
        return terms
