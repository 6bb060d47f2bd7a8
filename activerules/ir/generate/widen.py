"""Reverse mode for several cotangents in one sweep.

A plan does not depend on lanes: what is active, kept and reversed is the same in all of them. So
the plan for N lanes is that for one, and the generators make N of every shadow and cotangent: the
control flow, the tape and recomputed values are shared; only the arithmetic of cotangents and the
updates of shadows are done per lane.

Invariants  D1  the augmented primal of a rule runs once, with the shadows of lane 0. So a plan for
                several lanes has no rule that may keep a shadow on its tape or in its result. The
                engine makes the shadows of results in the other lanes. The reverse of a rule runs
                once per lane.
"""

from __future__ import annotations

from dataclasses import replace

from activerules.ir.plan.marked import RuleUse
from activerules.ir.plan.plan import Plan


def widened(plan: Plan, width: int) -> Plan | None:
    """The plan for `width` lanes; None if a rule needs a primal sweep for each lane."""
    if any(_may_keep_shadow(use) for p in (plan, *plan.pairs) for use in p.rules.values()):
        return None
    pairs = tuple(_with_width(pair, width) for pair in plan.pairs)
    return replace(_with_width(plan, width), pairs=pairs)


def _with_width(plan: Plan, width: int) -> Plan:
    return replace(plan, request=replace(plan.request, width=width))


def _may_keep_shadow(use: RuleUse) -> bool:
    if not use.code.keeps_shadow:
        return False
    has_tape = use.tape is not None
    return use.request.result == "duplicated" or (has_tape and bool(use.duplicated()))
