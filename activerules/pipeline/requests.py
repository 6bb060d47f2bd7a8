"""The request for a captured function: the activity of every LLVM parameter.

All modes start here; `stages` has how they end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numba import types

from activerules.ir.analysis.memory.objects import MemoryObject, root
from activerules.ir.derivatives.rulecall import ActivityName, Options
from activerules.ir.llvm.model import Function, Module
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.request import (
    Caller,
    Limits,
    Optimiser,
    Parameter,
    PassedMemory,
    Pointee,
    Request,
    Returned,
)
from activerules.numba_ext.rules.rule_compiler import NumbaRuleCompiler
from activerules.numba_ext.target.capture import Captured, LoweredArgument
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline.limits import stack_limit, tape_limit
from activerules.pipeline.stages import STEM, Stages
from activerules.values.abi import AbiParameter, flatten, meminfo_offsets
from activerules.values.kinds import (
    is_collection,
    is_instance,
    is_number_array,
    is_record_array,
    leaves_of,
    returned_type,
)
from activerules.values.layout import ValueActivity, layout_of
from activerules.values.memory_layout import (
    ItemMemory,
    Pointers,
    declared_of,
    declared_result,
    inner_of,
)

Group = int | tuple[int, int]
_POINTER_ROLES = frozenset({"meminfo", "parent", "data", "pointer"})
_DATA_ROLES = frozenset({"data", "pointer"})


def seeded_return(captured: Captured, return_activity: ActivityName | None) -> ActivityName:
    """The activity of the return; by default Active for a float."""
    if return_activity is None:
        returned = returned_type(captured.signature.return_type)
        return "active" if isinstance(returned, types.Float) else "const"
    return return_activity


@dataclass(frozen=True)
class Source:
    """A captured function and the derivative that is requested of it.

    returned  the activity of what it returns
    modules   its module, a new copy for each attempt to plan
    changing  the arguments whose objects change after the function has read them
    """

    spec: DerivativeSpec
    stage: Stages
    captured: Captured
    returned: ActivityName
    modules: Iterator[Module]
    rules: NumbaRuleCompiler
    changing: frozenset[int]

    def request(self, activities: tuple[ValueActivity, ...]) -> Request:
        """The request for a plan with these activities of the arguments."""
        captured, options, module = self.captured, self.spec.options, next(self.modules)
        function = module.functions[captured.symbol]
        parameters, pointees = self._memory(function, activities)
        result = returned_type(captured.signature.return_type)
        return Request(
            module,
            function,
            STEM,
            parameters,
            Returned("status", meminfos=meminfo_offsets(result)),
            self.rules,
            pointees,
            caller=self._caller((*parameters, *pointees)),
            options=Options("strong_zero" in options, "runtime_activity" in options),
            optimiser=Optimiser("reassociate" in options, "vector_math" in options),
            limits=Limits(tape_limit(), stack_limit()),
            width=self.spec.width if self.spec.mode == "forward" else 1,
            display_name=captured.name,
        )

    def _memory(
        self, function: Function, activities: tuple[ValueActivity, ...]
    ) -> tuple[tuple[Parameter, ...], tuple[Pointee, ...]]:
        """The LLVM parameters, with the activities of the arguments they belong to, and the memory
        behind pointers in theirs. Each array in a tuple is memory of its own.
        """
        parameters = self._returns(function)
        pointees: dict[object, Pointee] = {}
        arguments, forward = self.captured.arguments, self.spec.mode == "forward"
        left_out: tuple[ValueActivity, ...] = ("const",) * (len(arguments) - len(activities))
        for number, activity in enumerate(activities + left_out):
            own = _parameters(number, arguments[number], activity, function, forward)
            for leaf, parameter in own:
                parameters.append(parameter)
                if parameter.declared is not None and parameter.activity == "duplicated":
                    pointees |= _pointees(leaf, parameter.memory, parameter.activity)
        return tuple(parameters), tuple(pointees.values())

    def _returns(self, function: Function) -> list[Parameter]:
        """The parameters to which Numba's convention returns the result and an exception."""
        retptr, excinfo, *_ = function.arguments
        result = returned_type(self.captured.signature.return_type)
        return [
            Parameter(
                retptr,
                "duplicated" if self.returned != "const" else "const",
                "return",
                PassedMemory(private=True, written_only=True, declared=declared_result(result)),
            ),
            Parameter(excinfo, "const", "exception", PassedMemory(private=True)),
        ]

    def _caller(self, memory: tuple[Parameter | Pointee, ...]) -> Caller:
        """What the code that calls the derivative promises (numba_ext/calls)."""
        return Caller(
            # forward: arguments may overlap if their shadows overlap alike, as nothing is kept that
            # could change
            separate=self.spec.mode != "forward",
            checked=self.spec.mode == "reverse",
            split=self.spec.mode == "split",
            changing=frozenset(
                p.memory
                for p in memory
                if argument_of(p.group) in self.changing and p.memory.private
            ),
            needs_primal=self.spec.needs_primal,
        )


def _parameters(
    number: int,
    argument: LoweredArgument,
    activity: ValueActivity,
    function: Function,
    forward: bool,
) -> Iterator[tuple[types.Type, Parameter]]:
    """The LLVM parameters of an argument, each with the type of its leaf."""
    slots = _grouped_slots(number, argument.numba_type)
    for (group, leaf, slot), index in zip(slots, argument.parameters, strict=True):
        yield (
            leaf,
            Parameter(
                function.arguments[index],
                _slot_activity(slot.role, leaf, activity, forward),
                group,
                PassedMemory(
                    private=_private(leaf),
                    declared=declared_of(leaf) if _is_start(slot.role, leaf) else None,
                    addresses=activity == "const" and _may_hold_addresses(leaf),
                ),
                length=slot.role == "shape",
                multiple=_multiple(slot.role, leaf, activity),
            ),
        )


def _pointees(
    ty: types.Type | ItemMemory,
    holder: MemoryObject,
    activity: ActivityName,
    *,
    many: bool = False,
) -> dict[object, Pointee]:
    """The memory reachable through pointers in the memory of an argument, at any depth, by group.

    Pointers in the items of a list lead to `many` blocks of memory that are one object to the
    analyses. Structs of one type start at the same address or do not overlap. Arrays may be views
    of one another: only the layout is known to be the same from the start of each.
    """
    pointees: dict[object, Pointee] = {}
    start = holder.key if isinstance(holder.key, tuple) else (holder.key,)
    for inner in inner_of(ty):
        target = inner.numba_type
        pointers: Pointers = inner.pointers
        if many and isinstance(target, types.Array):
            pointers = tuple((k, "each" if kind == "start" else kind) for k, kind in pointers)
        pointee = Pointee(
            holder,
            pointers,
            activity if isinstance(target, ItemMemory) or layout_of(target).has_shadow else "const",
            (*start, *inner.path),
            private=_private(target),
            declared=declared_of(target),
        )
        pointees[pointee.group] = pointee
        pointees |= _pointees(
            target, pointee.memory, pointee.activity, many=many or isinstance(target, ItemMemory)
        )
    return pointees


def _may_hold_addresses(leaf: types.Type) -> bool:
    """Whether integers in the memory of a leaf may lead to more of it: a package's own type."""
    is_pointer = isinstance(leaf, types.CPointer | types.RawPointer)
    return layout_of(leaf).unknown_path is not None and not is_pointer


def _is_start(role: str, leaf: types.Type) -> bool:
    """Whether a parameter points to the memory of a leaf; a StructRef is only its MemInfo."""
    return role in _DATA_ROLES or (role == "meminfo" and isinstance(leaf, types.StructRef))


def _multiple(role: str, leaf: types.Type, activity: ValueActivity) -> int:
    """A number known to divide an integer parameter: the size of an item, by its type, and a stride
    of an array of records, which is checked if the array has a shadow.
    """
    if role == "itemsize" and is_number_array(leaf):
        dtype: Any = leaf.dtype  # pyright: ignore[reportAttributeAccessIssue]
        return dtype.bitwidth // 8
    known = role == "stride" and is_record_array(leaf) and layout_of(leaf).has_shadow
    declared = declared_of(leaf)
    return declared.period if known and declared and activity != "const" else 1


def _private(ty: types.Type | ItemMemory) -> bool | str:
    """The name of the class of memory that this one may overlap: instances, lists, dictionaries and
    items of lists overlap only memory of their own type.
    """
    named = isinstance(ty, ItemMemory) or is_instance(ty) or is_collection(ty)
    return str(ty) if named else False


def _grouped_slots(number: int, ty: types.Type) -> Iterator[tuple[Group, types.Type, AbiParameter]]:
    """The LLVM parameters of an argument, each with its group and the type of its leaf."""
    is_tuple = isinstance(ty, types.BaseTuple)
    for k, leaf in enumerate(leaves_of(ty)):
        for slot in flatten(leaf):
            yield (number, k) if is_tuple else number, leaf, slot


def argument_of(group: object) -> int | None:
    """The number of the argument that a group of parameters belongs to."""
    while isinstance(group, tuple):
        group = group[0]
    return group if isinstance(group, int) else None


def _slot_activity(
    role: str, leaf: types.Type, activity: ValueActivity, forward: bool
) -> ActivityName:
    """The activity of one LLVM parameter: constant unless it is data or a float of an active leaf,
    as `activity` says.
    """
    if role == "float":
        if forward:
            return "duplicated" if activity == "duplicated" else "const"
        return "active" if activity in ("active", "mixed") else "const"
    shadowed = (
        role in _POINTER_ROLES
        and activity in ("duplicated", "mixed")
        and layout_of(leaf).has_shadow
    )
    return "duplicated" if shadowed else "const"


def _argument_objects(facts: Facts, number: int) -> frozenset[MemoryObject]:
    holders = (*facts.request.parameters, *facts.request.pointees)
    return frozenset(p.memory for p in holders if argument_of(p.group) == number)


def is_written(facts: Facts, number: int) -> bool:
    """Whether the primal may write into the memory of an argument."""
    targets = _argument_objects(facts, number)
    return not targets.isdisjoint(facts.request.caller.changing) or any(
        write.everything or any(root(o) in targets for o in facts.memory.written_by(write))
        for write in facts.memory.writes
    )
