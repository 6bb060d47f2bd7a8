"""Checks of forward rules, for `check_rule`: every combination of Const and Duplicated, one tangent
at a time and in batches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from activerules.annotations.activity import Const, Duplicated, annotate
from activerules.chainrules.engine_rules import without_integers
from activerules.errors import NoRuleForActivity, RuleCheckError
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES
from activerules.rules.rule import ForwardRule
from activerules.testing.gradient import FLOOR, completed
from activerules.testing.halves import run_forward
from activerules.testing.numeric import inner_terms, scaled
from activerules.testing.reference import SCALES, Reference, located
from activerules.testing.situations import Kind, Situation, activities
from activerules.testing.trees import zero_of


class ForwardCheck:
    """The checks of the forward rules of one function at one point.

    pulled  the terms of <x̄, ẋ> of its pair by the arguments that vary, where it has one
    """

    def __init__(self, reference: Reference, pulled: Mapping[tuple[int, ...], list[float]]) -> None:
        self.ref = reference
        self.pulled = pulled

    def run(self, compiled: bool) -> set[str]:
        """Check every combination of Const and Duplicated; return the locations of the rules that
        served one.
        """
        locations: set[str] = set()
        for kinds in activities(self.ref.arguments, forward=True):
            single, batch = self.forward_rule(kinds, 1), self.forward_rule(kinds, 2)
            rules = [(single, 1)] if single is not None else []
            rules += [(batch, 2)] if batch is not None and not batch.looped else []
            for (rule, width), how in itertools.product(rules, (False, True)[: 1 + compiled]):
                result = Const if self.ref.result is None else Duplicated
                situation = Situation(kinds, result, (False,) * len(kinds), compiled=how)
                try:
                    self.check_forward_run(rule, situation, width)
                except RuleCheckError as error:
                    located(error, rule, situation)
                    raise
            locations.update(rule.location for rule, _ in rules)
        return locations

    def forward_rule(self, kinds: tuple[Kind, ...], width: int) -> ForwardRule | None:
        """The forward rule that serves a number of tangents; None if none does."""
        result = Const if self.ref.result is None else Duplicated
        try:
            return RULES.find_forward(self.ref.f, self.ref.types, (*kinds, result), width)
        except NoRuleForActivity:
            return None

    def check_forward_run(self, rule: ForwardRule, situation: Situation, width: int) -> None:
        """Check one run of a forward rule."""
        copies = self.ref.copies()
        scales = SCALES[:width]
        lanes = [
            [
                without_integers(completed(None if kind is Const else scaled(v, scale), zero_of(x)))
                for v, kind, x in zip(
                    self.ref.directions, situation.kinds, self.ref.values, strict=True
                )
            ]
            for scale in scales
        ]
        shadows = [each if width > 1 else each[0] for each in zip(*lanes, strict=True)]
        annotated = list(map(annotate, rule.arguments, copies, shadows))
        config = RuleConfig(overwritten=(False,) * len(copies), width=width)
        before = list(map(self.tangents_to_keep, lanes))
        run = run_forward(rule, config, annotated, compiled=situation.compiled)
        self.ref.same("result", run.primal, self.ref.result, situation)
        for i, (copy, end) in enumerate(zip(copies, self.ref.ends, strict=True)):
            self.ref.same(f"argument {i} after the rule", copy, end, situation)
        for k, (scale, tangent) in enumerate(zip(scales, run.entries, strict=True)):
            here = replace(situation, lane=k)
            self.compare_forward(tangent, lanes[k], scale, here)
            for i, kept in self.tangents_to_keep(lanes[k]).items():
                if kept != before[k][i]:
                    what = f"tangent of argument {i} after the rule"
                    raise self.ref.failure(what, "changed", "as it was", here)

    def tangents_to_keep(self, shadows: Sequence[Any]) -> dict[int, list[float]]:
        """The tangents of the arguments that the function does not write into, as terms."""
        return {
            i: list(inner_terms(start, shadow))
            for i, (start, shadow) in enumerate(zip(self.ref.starts, shadows, strict=True))
            if not self.ref.written(i)
        }

    def compare_forward(
        self, tangent: Any, shadows: Sequence[Any], scale: float, situation: Situation
    ) -> None:
        """Compare the tangents of the result and of written arguments, contracted with the
        cotangents of the reverse check, with finite differences and with the reverse.
        """
        active = situation.differentiated
        written = [j for j in active if self.ref.written(j)]
        expected = [self.ref.expected(i, situation) for i in active]
        error = math.fsum(each[1] for each in expected)
        what = "tangent of the result"
        terms = self.ref.paired(what, tangent, self.ref.result_bar, situation)
        for j in written:
            terms += inner_terms(self.ref.starts[j], shadows[j])
        total = scale * math.fsum(each[0] for each in expected)
        self.ref.compare(active[0], terms, total, error, situation, what)
        if scale == 1.0 and active in self.pulled:
            self.compare_modes(terms, self.pulled[active], situation)

    def compare_modes(
        self, forward: list[float], reverse: list[float], situation: Situation
    ) -> None:
        """Compare <ȳ, ẏ> of the forward rule with <x̄, ẋ> of the pair, up to rounding."""
        pushed, pulled = math.fsum(forward), math.fsum(reverse)
        scale = math.fsum(map(abs, forward)) + math.fsum(map(abs, reverse))
        allowed = FLOOR[self.ref.precision] * scale + self.ref.tolerance.of(pulled)
        if not abs(pushed - pulled) <= allowed:
            raise self.ref.failure(
                "forward against reverse",
                f"<ȳ, ẏ> = {pushed:.12g}",
                f"<x̄, ẋ> = {pulled:.12g} of the pair",
                situation,
            )
