"""The plan of a forward derivative: which rule serves which marked call.

Needs       a Request, in which floats may be Duplicated
Gives       ForwardPlan, frozen; programs without a forward derivative are refused here
Invariants  W1  every arithmetic instruction with an active result has a row, or the program is
                refused
            W2  no float with a derivative is copied among bytes that are not known to be floats
            W3  where shadow memory is read or written through a pointer, all memory it may point
                to has a shadow, or the program is refused
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from activerules.errors import MixedActivity
from activerules.ir.analysis.summaries import ModuleSummaries
from activerules.ir.analysis.types.copies import PeriodicCopy, cut_floats, may_mix_types, mixed_copy
from activerules.ir.derivatives.rulecall import ActivityName, CallInfo, ForwardRuleRequest
from activerules.ir.derivatives.slopes import absorbing
from activerules.ir.derivatives.table import require_row
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Block, Instruction
from activerules.ir.llvm.refusal import refusal
from activerules.ir.llvm.types import Type
from activerules.ir.normal.effects import effect_of, memory_intrinsic
from activerules.ir.plan.analyses import prepared, summaries_of
from activerules.ir.plan.callees import CalleeUse, Family, plan_callees, use_callee
from activerules.ir.plan.facts import Facts, analyse
from activerules.ir.plan.marked import (
    ForwardRuleUse,
    activities_of,
    choosing_for,
    may_leave_traces,
    ruled,
)
from activerules.ir.plan.request import Request
from activerules.ir.plan.vectorised_loops import vectorised_loops

_CARRIED = {"load", "phi", "select", "freeze"}


@dataclass(frozen=True, eq=False)
class ForwardPlan(Facts):
    """Every decision about a forward derivative, for the generator.

    zeroed     stores of integers that overwrite floats
    copied     stores of integers that are repeated on shadow memory
    cuts       per copy and `memset`, the floats inside which it may begin or end
    absorbing  (instruction, operand): the term for that operand is zero where its tangent is zero,
               whatever the slope
    recursive  the stems of the functions that may be recursive, directly or indirectly
    scalars    blocks in which the tangents of several lanes are scalars
    """

    rules: Mapping[Instruction, ForwardRuleUse]
    derived: Mapping[Instruction, CalleeUse]
    zeroed: frozenset[Instruction]
    copied: frozenset[Instruction]
    cuts: Mapping[Instruction, Type | PeriodicCopy]
    absorbing: frozenset[tuple[Instruction, int]]
    recursive: frozenset[str]
    scalars: frozenset[Block]
    pairs: tuple[ForwardPlan, ...]


def make_forward_plan(request: Request) -> ForwardPlan:
    """Run the analyses and choose the rules; refuses programs without a forward derivative."""
    family = Family(request, forward=True)
    summaries = summaries_of(request)
    with_pairs = _plan_one(request, family, summaries)
    pairs = plan_callees(
        family, lambda callee: _plan_one(callee, family, summaries)(pairs=(), recursive=frozenset())
    )
    return with_pairs(pairs=pairs, recursive=_recursive(pairs))


def _plan_one(
    request: Request, family: Family, summaries: ModuleSummaries
) -> Callable[..., ForwardPlan]:
    """Decide for one function; return a constructor that takes the plans of its callees."""
    facts = analyse(prepared(request, summaries))
    rules: dict[Instruction, ForwardRuleUse] = {}
    derived: dict[Instruction, CalleeUse] = {}
    for i in facts.returns.instructions():
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
            _check(i, facts)
    integers = [
        i
        for i in _shadowed_stores(facts)
        if not (i.operands[0].type.is_float or i.operands[0].type.is_pointer)
    ]
    zeroed = frozenset(i for i in integers if facts.zeroes_floats(i))
    copies = (i for i in facts.request.function.instructions() if memory_intrinsic(i))
    return partial(
        ForwardPlan,
        **vars(facts),
        rules=rules,
        derived=derived,
        zeroed=zeroed,
        copied=frozenset(i for i in integers if i not in zeroed and _is_copied(i, facts)),
        absorbing=absorbing(
            facts.request.function.instructions(), facts.wanted, facts.request.options.strong_zero
        ),
        scalars=vectorised_loops(facts),
        cuts={i: cut for i in copies if (cut := cut_floats(i, facts.types)) is not None},
    )


def _shadowed_stores(facts: Facts) -> Iterator[Instruction]:
    """The stores to memory with a shadow; on error paths, only where the memory must have one."""
    for block in facts.flow.order:
        shadowed = facts.activity.has_shadow if block in facts.returns.live else facts.is_shadowed
        yield from (
            i for i in block.instructions if i.opcode == "store" and shadowed(i.operands[1])
        )


def _is_copied(store: Instruction, facts: Facts) -> bool:
    """Whether a store of an integer is repeated on the shadow."""
    filled = facts.request.copied_integers
    if facts.types.is_free_of_floats(store):
        # such as the length of a list argument, which the destructor of the shadow reads
        filled |= facts.request.mirrored
    return all(o.is_local or o in filled for o in facts.memory.objects(store.operands[1]))


def _recursive(plans: tuple[ForwardPlan, ...]) -> frozenset[str]:
    """The stems of the functions that may be recursive, directly or indirectly."""
    calls = {plan.request.name: {use.stem for use in plan.derived.values()} for plan in plans}
    return frozenset(
        stem for stem in calls if stem in closure(calls[stem], lambda s: calls.get(s, ()))
    )


def _rule(call: Instruction, info: CallInfo, facts: Facts) -> ForwardRuleUse | None:
    how = activities_of(call, info, facts)
    if how is None:
        return None
    asked = facts.request
    assert asked.rules is not None
    activities: tuple[ActivityName, ...] = tuple(_as_forward(a) for a in how.arguments)
    request = ForwardRuleRequest(
        activities,
        _as_forward(how.result),
        asked.width,
        needs_primal=facts.reads_result(call, info),
        options=asked.options,
        caught=may_leave_traces(call, info, how, facts),
    )
    with choosing_for(call):
        code = asked.rules.choose_forward(call.callee_name or "", request)
    if code is None:
        raise refusal(
            call,
            f"no forward rule of {info.name} takes these activities",
            "the call was kept for its rules, and none of them is for forward mode",
            [f"write one: @ar.forward({info.name})"],
        )
    return ForwardRuleUse(**vars(ruled(call, info, request, facts)), code=code)


def _as_forward(activity: ActivityName) -> ActivityName:
    return "duplicated" if activity == "active" else activity


def _check(i: Instruction, facts: Facts) -> None:
    if i.opcode == "store":
        _check_pointer_store(i, facts)
    elif i.opcode == "load":
        _check_pointer_load(i, facts)
    elif memory_intrinsic(i) not in {None, "memset"}:
        _check_copy(i, facts)
    if not i.type.is_float or not facts.activity.is_active(i) or i.opcode in _CARRIED:
        return
    if i.opcode == "call" and effect_of(i.callee_name) is not None:
        return
    require_row(i)


def _check_copy(i: Instruction, facts: Facts) -> None:
    """Refuse copies of mixed types: the tangents of floats must not be copied as anything else."""
    if all(map(facts.activity.has_shadow, i.operands[:2])) and may_mix_types(i, facts.types):
        raise mixed_copy(i)


def _check_pointer_load(i: Instruction, facts: Facts) -> None:
    if i.type.is_pointer and facts.activity.has_shadow(i) and not facts.is_shadowed(i.operands[0]):
        raise refusal(
            i,
            "a pointer to active memory is read from memory without a shadow",
            "where the shadow of what it points to lies is not known",
            ["mark the argument that holds the pointer Duplicated"],
            MixedActivity,
        )


def _check_pointer_store(i: Instruction, facts: Facts) -> None:
    """Refuse to store a pointer if its shadow cannot be stored in the same way."""
    value, pointer = i.operands
    if not value.type.is_pointer or not facts.activity.has_shadow(pointer):
        return
    local = all(o.is_local or o in facts.request.mirrored for o in facts.memory.objects(pointer))
    if local or (
        facts.is_shadowed(pointer) and (facts.is_shadowed(value) or not facts.memory.objects(value))
    ):
        return
    raise refusal(
        i,
        "a pointer is stored into memory of the caller, and not both have a shadow",
        "the shadow of the caller's memory would hold a pointer that leads nowhere",
        ["mark both arguments Duplicated"],
        MixedActivity,
    )
