"""Derived pairs: functions of the module that are called, and differentiated on their own.

A call that is not inlined (recursion, or `noinline`) is replaced by an augmented primal and a
reverse of the callee, for the activities of the arguments at the call. Both use the caller's tape:
the callee's frame is reserved there, and the caller keeps a pointer to it.

    i32 <name>.enter  (parameters with shadows, ptr frame.at, ptr tape[, ptr result[, ptr shadow]])
    i32 <name>.reverse(parameters with shadows, ptr frame, ptr tape[, seed], ptr derivatives)

`enter` reserves the frame, stores its address in `frame.at` and runs the augmented primal. If the
caller fails whenever the function returns anything but 0, `enter` returns the primal's status.
Otherwise it returns 0, stores the primal's result in `result` (and the shadow of a pointer in
`shadow`), and every exit of the function is differentiated. OUT_OF_MEMORY ends the derivative.

Needs       the facts of the calling function
Gives       a CalleeUse per call, and in a `Family` one Request per variant of a function
Invariants  F1  a name stands for one function, one activity per parameter and one set of facts
                about the caller's memory; so the planning of recursive functions ends
            F2  every plan has its own copy of the function
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from activerules.errors import ActiverulesError
from activerules.ir.analysis.memory.called import CalledMemory
from activerules.ir.analysis.memory.callee import CalleeMemory
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import CalleeFrame
from activerules.ir.analysis.summaries import Variant
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.ir.llvm.builder import suffixed
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.copying import copy_function
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.names import plain_name
from activerules.ir.llvm.refusal import refusal
from activerules.ir.llvm.types import Type
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.request import (
    Callee,
    Parameter,
    PassedMemory,
    Request,
    Returned,
    ReturnKind,
)

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class CalleeUse:
    """A call of a derived pair; `activities` has one entry per operand.

    has_rules   a rule may run in the reverse, and raise: its exception is stored where the
                caller's own goes
    """

    call: Instruction
    stem: str
    activities: tuple[ActivityName, ...]
    returned: Returned
    frame: CalleeFrame
    has_rules: bool

    def duplicated(self) -> list[Value]:
        """The operands that are passed with a shadow."""
        pairs = zip(self.call.operands, self.activities, strict=True)
        return [o for o, how in pairs if how == "duplicated"]

    def active(self) -> list[Value]:
        """The operands whose derivative the reverse returns, in order."""
        pairs = zip(self.call.operands, self.activities, strict=True)
        return [o for o, how in pairs if how == "active"]


@dataclass(frozen=True)
class _PairKey:
    """Everything that the code of a pair depends on; equal keys share a pair (F1)."""

    variant: Variant
    activities: tuple[ActivityName, ...]
    passed: tuple[PassedMemory, ...]
    returned: Returned
    disjoint: bool


@dataclass(eq=False)
class Family:
    """The pairs that one derivative needs; those in `todo` have not been planned yet.

    In `forward` mode, instead of a pair, one function per key: i32 <name>.forward(parameters with
    shadows and tangents[, ptr result[, ptr tangents or shadows]]).
    """

    top: Request
    forward: bool = False
    requests: dict[_PairKey, Request] = field(default_factory=dict[_PairKey, Request])
    todo: list[Request] = field(default_factory=list[Request])

    def request(self, key: _PairKey, arguments: dict[object, frozenset[object]]) -> Request:
        """The request of a pair, made once per key."""
        if key not in self.requests:
            new = self._make(key, arguments)
            self.requests[key] = new
            self.todo.append(new)
        return self.requests[key]

    def _make(self, key: _PairKey, arguments: dict[object, frozenset[object]]) -> Request:
        function = copy_function(self.top.module.functions[key.variant.name])
        # `Scopes` makes a million numbers of 32 bits of each
        number = len(self.requests) + (1 if self.top.caller.disjoint else 2_000)
        parameters = tuple(
            Parameter(
                argument,
                key.activities[k],
                key.variant.groups[k] if argument.type.is_pointer else ("value", k),
                key.passed[k],
            )
            for k, argument in enumerate(function.arguments)
        )
        return replace(
            self.top,
            function=function,
            name=suffixed(self.top.name, f".callee{number}"),
            parameters=parameters,
            returned=key.returned,
            caller=replace(self.top.caller, disjoint=key.disjoint, separate=False, checked=False),
            callee=Callee(number, arguments),
            display_name=key.variant.name,
        )


def plan_callees(family: Family, plan_one: Callable[[Request], P]) -> tuple[P, ...]:
    """The plans of all pairs of a family, including pairs that only other pairs need."""
    plans: list[P] = []
    while family.todo:
        request = family.todo.pop()
        try:
            plans.append(plan_one(request))
        except ActiverulesError as error:
            in_terms_of_the_whole(error, request)
            raise
    return tuple(plans)


def use_callee(
    call: Instruction, facts: Facts, family: Family, *, retains: bool = False
) -> CalleeUse | None:
    """The pair for a call of a function of the module; None if the primal can be called as it is.

    That is the case if it contributes no derivative, allocates no shadow and no memory that the
    tape has to retain (`retains`), and calls no function that passes data other than by its
    arguments.
    """
    called = facts.memory.called[call]
    active = facts.activity.active_memory
    result_shadow = call.type.is_pointer and facts.activity.has_shadow(call)
    is_needed = (
        retains
        or facts.activity.is_active(call)
        or result_shadow
        or called.summary.releases
        or called.summary.passes_data
        or not active.isdisjoint(called.writes | {called.fresh})
    )
    if not is_needed:
        return None
    _refuse_aggregates(call)
    activities: tuple[ActivityName, ...] = tuple(
        _activity(k, o, called, facts, family.forward) for k, o in enumerate(call.operands)
    )
    variant = facts.callees.variant(call, called.groups, called.apart)
    kind: ReturnKind = "active" if facts.activity.is_active(call) else "const"
    if variant.status:
        kind = "status"
    returned = Returned(kind, result_shadow, called.fresh in active)
    key = _pair_key(call, variant, activities, returned, facts)
    request = family.request(key, _arguments_reached(called, facts))
    frame = CalleeFrame(call)
    has_rules = _runs_rules(variant.name, facts)
    return CalleeUse(call, request.name, activities, returned, frame, has_rules)


def _runs_rules(name: str, facts: Facts) -> bool:
    """Whether a function of the module, or one that it calls, has a marked call."""
    functions = facts.request.module.functions

    def called(name: str) -> Iterable[str]:
        names = (i.callee_name for i in functions[name].instructions())
        return (name for name in names if name in functions)

    return any(
        facts.calls.marked(i) is not None
        for reached in closure([name], called)
        for i in functions[reached].instructions()
    )


def _activity(
    k: int, operand: Value, called: CalledMemory, facts: Facts, forward: bool
) -> ActivityName:
    if operand.type.is_float and facts.activity.is_active(operand):
        return "duplicated" if forward else "active"
    if not facts.activity.active_memory.isdisjoint(called.group(k)):
        return "duplicated"
    if operand.type.is_pointer and not called.group(k):
        return "duplicated"  # it points nowhere, and so does its shadow
    return "const"


def _refuse_aggregates(call: Instruction) -> None:
    aggregates = [o for o in call.operands if not _is_scalar(o.type)]
    if aggregates or not (_is_scalar(call.type) or str(call.type) == "void"):
        raise refusal(
            call,
            f"{plain_name(call.callee_name or '')} takes or returns a struct or vector by value "
            "and carries a derivative",
            "the engine differentiates scalars and memory; it could not inline this call",
            ["let it be inlined, or pass the parts one by one"],
        )


def _is_scalar(t: Type) -> bool:
    return t.is_float or t.is_int or t.is_pointer


def _pair_key(
    call: Instruction,
    variant: Variant,
    activities: tuple[ActivityName, ...],
    returned: Returned,
    facts: Facts,
) -> _PairKey:
    called = facts.memory.called[call]
    passed = tuple(_passed(call, k, facts) for k in range(len(activities)))
    outside = (o for k in range(len(passed)) for o in called.group(k))
    apart = called.apart and not any(o.kind in {"global", "loaded"} for o in outside)
    return _PairKey(variant, activities, passed, returned, apart)


def _passed(call: Instruction, k: int, facts: Facts) -> PassedMemory:
    called = facts.memory.called[call]
    group, objects, own = called.groups[k], called.group(k), facts.request.mirrored
    return PassedMemory(
        private=bool(objects) and all(o.is_local or o.private is True for o in objects),
        overwritten=group is not None and facts.memory.changes.group_overwritten(call, group),
        copies_pointers=all(o.is_local or o in own for o in objects),
        copies_integers=_copies_integers(called, k, facts),
        declared=_declared(objects, facts),
    )


def _is_written_only(called: CalledMemory, k: int) -> bool:
    group = called.groups[k]
    if group is None or called.summary.everything:
        return False
    return called.summary.reads.isdisjoint({CalleeMemory(group), CalleeMemory(group, deep=True)})


def _copies_integers(called: CalledMemory, k: int, facts: Facts) -> bool:
    """Whether the callee may copy integers to the shadow: the engine made the memory, and it holds
    no floats.
    """
    own = facts.request.copied_integers
    objects = called.group(k)
    return _is_written_only(called, k) and all(
        (o.is_local or o in own) and not facts.types.holds_float(o) for o in objects
    )


def _declared(objects: Iterable[MemoryObject], facts: Facts) -> Declared | None:
    """The layout of the memory, if it is known to be an array of floats, or without floats."""
    kinds = {facts.types.declared.get(o) for o in objects}
    declared = kinds.pop() if len(kinds) == 1 else None
    # the callee may be passed a pointer into the middle: the layout must hold from there, too
    is_uniform = declared is not None and declared in map(Declared.array_of, declared.float_types)
    return declared if is_uniform or (declared is not None and declared.is_plain) else None


def _arguments_reached(called: CalledMemory, facts: Facts) -> dict[object, frozenset[object]]:
    """Per group of operands, the arguments of the user's function to which they may point."""
    return {
        group: frozenset(
            key
            for o in objects
            if o.kind == "argument"
            for key in facts.request.users_groups(o.key)
        )
        for group, objects in called.direct.items()
    }


def in_terms_of_the_whole(error: ActiverulesError, request: Request) -> None:
    """Make an error about a callee's memory name the arguments of the user's function."""
    keys = {key for group in error.groups for key in request.users_groups(group)}
    error.groups = tuple(sorted(keys, key=repr))
