"""What forward mode decides before it makes code: which rule serves which marked call.

Needs       a Request, in which floats may be Duplicated
Gives       ForwardPlan, frozen; programs that have no forward derivative are refused here
Invariants  W1  every arithmetic instruction with an active result has a row, or the program is
                refused
            W2  no float of a derivative is copied among bytes of which it is not known whether they
                are floats
            W3  every pointer through which shadow memory is read or written has a shadow in all it
                may point to, or the program is refused
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from activerules.errors import MixedActivity
from activerules.ir.analysis.summaries import ModuleSummaries
from activerules.ir.analysis.types.copies import may_mix_types, mixed_copy
from activerules.ir.derivatives.rulecall import (
    ActivityName,
    CallInfo,
    ForwardRuleCode,
    ForwardRuleRequest,
)
from activerules.ir.derivatives.table import row_for
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.normal.effects import effect_of, memory_intrinsic
from activerules.ir.plan.callees import CalleeUse, Family, plan_callees, use_callee
from activerules.ir.plan.facts import Facts, analyse, summaries_of
from activerules.ir.plan.marked import activities_of, choosing_for, is_read, site_of
from activerules.ir.plan.request import Request

_CARRIED = {"load", "phi", "select", "freeze"}


@dataclass(frozen=True, eq=False)
class ForwardRuleCall:
    """A marked call that a forward rule serves; `site`: where it is, see `failing`."""

    call: Instruction
    info: CallInfo
    request: ForwardRuleRequest
    code: ForwardRuleCode
    site: str | None

    def shadow_operands(self) -> list[Value]:
        """The operands of all Duplicated arguments, in order."""
        pairs = zip(self.info.arguments, self.request.activities, strict=True)
        return [
            self.call.operands[k] for a, how in pairs if how == "duplicated" for k in a.operands
        ]


@dataclass(frozen=True, eq=False)
class ForwardPlan(Facts):
    """Every decision about a forward derivative; what the generator reads."""

    rules: dict[Instruction, ForwardRuleCall]
    derived: dict[Instruction, CalleeUse]
    pairs: tuple[ForwardPlan, ...] = ()

    def is_shadowed(self, pointer: Value) -> bool:
        """Whether all memory a pointer may lead to has a shadow."""
        objects = self.memory.objects(pointer)
        return bool(objects) and objects <= self.activity.active_memory


def make_forward_plan(request: Request) -> ForwardPlan:
    """Run the analyses, choose the rules; raises what cannot be differentiated."""
    family = Family(request, forward=True)
    summaries = summaries_of(request)
    plan = _plan_one(request, family, summaries)
    return replace(plan, pairs=plan_callees(family, lambda r: _plan_one(r, family, summaries)))


def _plan_one(request: Request, family: Family, summaries: ModuleSummaries) -> ForwardPlan:
    facts = analyse(request, summaries)
    rules: dict[Instruction, ForwardRuleCall] = {}
    derived: dict[Instruction, CalleeUse] = {}
    plan = ForwardPlan(**vars(facts), rules=rules, derived=derived)
    for block in facts.flow.order:
        for i in block.instructions if block in facts.returns.live else ():
            info = facts.calls.marked(i)
            if i in facts.memory.called:
                callee = use_callee(i, facts, family)
                if callee is not None:
                    derived[i] = callee
            elif info is not None:
                use = _rule(i, info, facts)
                if use is not None:
                    rules[i] = use
            else:
                _check(i, plan)
    return plan


def _rule(call: Instruction, info: CallInfo, facts: Facts) -> ForwardRuleCall | None:
    how = activities_of(call, info, facts)
    if how is None:
        return None
    assert facts.request.rules is not None
    activities: tuple[ActivityName, ...] = tuple(_as_forward(a) for a in how.arguments)
    asked = facts.request
    request = ForwardRuleRequest(
        activities,
        _as_forward(how.result),
        asked.width,
        needs_primal=is_read(call, info, facts),
        strong_zero=asked.strong_zero,
        runtime_activity=asked.runtime_activity,
    )
    with choosing_for(call):
        code = facts.request.rules.choose_forward(call.callee_name or "", request)
    if code is None:
        raise refusal(
            call,
            f"no forward rule of {info.name} takes these activities",
            "the call was kept for its rules, and none of them is for forward mode",
            [f"write one: @ar.forward({info.name})"],
        )
    return ForwardRuleCall(call, info, request, code, site_of(call, info, asked))


def _as_forward(activity: ActivityName) -> ActivityName:
    return "duplicated" if activity == "active" else activity


def _check(i: Instruction, plan: ForwardPlan) -> None:
    if i.opcode == "store":
        _check_pointer_store(i, plan)
    elif i.opcode == "load":
        _check_pointer_load(i, plan)
    elif memory_intrinsic(i) not in {None, "memset"}:
        _check_copy(i, plan)
    if not i.type.is_float or not plan.activity.is_active(i) or i.opcode in _CARRIED:
        return
    if i.opcode == "call" and effect_of(i.callee_name) is not None:
        return
    if row_for(i) is None:
        raise refusal(
            i,
            f"no derivative is known for {i.callee_name or i.opcode} of type {i.type}",
            "an active value is computed by it",
            ["put the computation into a function and give it a rule"],
        )


def _check_copy(i: Instruction, plan: ForwardPlan) -> None:
    """Bytes of floats must not be seen as anything else: the copy of the shadow is one of them."""
    if all(map(plan.activity.has_shadow, i.operands[:2])) and may_mix_types(i, plan.types):
        raise mixed_copy(i)


def _check_pointer_load(i: Instruction, plan: ForwardPlan) -> None:
    if i.type.is_pointer and plan.activity.has_shadow(i) and not plan.is_shadowed(i.operands[0]):
        raise refusal(
            i,
            "a pointer to active memory is read from memory without a shadow",
            "where the shadow of what it points to lies is not known",
            ["mark the argument that holds the pointer Duplicated"],
            MixedActivity,
        )


def _check_pointer_store(i: Instruction, plan: ForwardPlan) -> None:
    """The shadow of a pointer goes into the shadow of the memory the pointer goes into."""
    value, pointer = i.operands
    if not value.type.is_pointer or not plan.activity.has_shadow(pointer):
        return
    local = all(o.is_local or o in plan.request.mirrored for o in plan.memory.objects(pointer))
    if local or (
        plan.is_shadowed(pointer) and (plan.is_shadowed(value) or not plan.memory.objects(value))
    ):
        return
    raise refusal(
        i,
        "a pointer is stored into memory of the caller, and not both have a shadow",
        "the shadow of the caller's memory would hold a pointer that leads nowhere",
        ["mark both arguments Duplicated"],
        MixedActivity,
    )
