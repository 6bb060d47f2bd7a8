"""Facts: the results of the analyses of a function, before any decision. Both modes start here.

Needs       the Analyses of a function after all rewrites
Gives       Facts, frozen: control flow, memory, types and activity of the function
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.errors import MixedActivity
from activerules.ir.analysis.activity import Activity, Seeds, analyse_activity
from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.read_results import may_be_read, only_returned
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.soundness import refuse_unsound
from activerules.ir.analysis.summaries import CallsIn
from activerules.ir.analysis.types.value_types import ValueTypes
from activerules.ir.derivatives.rulecall import CallInfo
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.model import Instruction, Module, Value
from activerules.ir.llvm.verbatim import type_of_numbers
from activerules.ir.plan.analyses import Analyses, declared_memory
from activerules.ir.plan.dictionaries import explained
from activerules.ir.plan.request import Parameter, Pointee, Request


@dataclass(frozen=True, eq=False)
class Facts:
    """The results of all analyses that both modes need."""

    request: Request
    flow: ControlFlow
    returns: Returns
    memory: MemoryFacts
    types: ValueTypes
    activity: Activity
    calls: EngineCalls
    callees: CallsIn
    integers: Integers

    def wanted(self, instruction: Instruction) -> tuple[bool, ...]:
        """Whether the cotangent is needed, for each operand."""
        return tuple(self.activity.is_active(o) for o in instruction.operands)

    def is_shadowed(self, pointer: Value) -> bool:
        """Whether all memory a pointer may lead to has a shadow."""
        objects = self.memory.objects(pointer)
        return bool(objects) and objects <= self.activity.active_memory

    def zeroes_floats(self, store: Instruction) -> bool:
        """Whether a store of an integer overwrites floats, or memory that may hold floats."""
        if not store.operands[0].type.is_int:
            return False
        return self.types.touches_floats(store) or (
            self._is_from_outside(store.operands[1])
            and not self.types.is_read_as_integer(store)
            and not self.types.is_free_of_floats(store)
        )

    def reads_result(self, call: Instruction, info: CallInfo) -> bool:
        """Whether the result of a marked call may be read; if the result of the function is not
        wanted, reads that contribute only to that do not count.
        """
        wanted = self.request.caller.needs_primal or not self.only_returns(call, info)
        return wanted and may_be_read(call, info, self.flow.users)

    def only_returns(self, call: Instruction, info: CallInfo) -> bool:
        """Whether the result of a marked call contributes only to what the function returns, and
        through operations whose derivatives do not need its value.
        """
        if self.request.callee:
            return False
        slots = (p.argument for p in self.request.parameters if p.passed.written_only)
        return only_returned(call, info, self.flow.users, slots)

    def _is_from_outside(self, pointer: Value) -> bool:
        """Whether a pointer may point to memory whose contents only the caller knows."""
        known = self.request.filled | self.request.copied_integers | self.types.declared.keys()
        return any(not o.is_local and o not in known for o in self.memory.objects(pointer))


def analyse(analyses: Analyses) -> Facts:
    """Complete the analyses of a function that has been rewritten (`prepare`).

    Raises what they raise: programs that the engine does not differentiate are refused here.
    """
    analyses.drop_changed_pointees()
    request, returns, memory, types = (
        analyses.request,
        analyses.returns,
        analyses.memory,
        analyses.types,
    )
    seeds = _seeds(request, returns, memory)
    activity = analyse_activity(memory, types, returns, analyses.calls, seeds)
    try:
        refuse_unsound(activity, types, returns, analyses.calls, seeds)
    except MixedActivity as error:
        raise explained(error, memory, request.module) from None
    return Facts(
        request=request,
        flow=analyses.flow,
        returns=returns,
        memory=memory,
        types=types,
        activity=activity,
        calls=analyses.calls,
        callees=analyses.callees,
        integers=analyses.integers,
    )


def _shadowable(module: Module) -> frozenset[MemoryObject]:
    """Globals that may have a shadow of zeros, see `ir.generate.constant_shadows`."""
    names = (k for k, line in module.globals.items() if type_of_numbers(line))
    return frozenset(MemoryObject("global", name) for name in names)


def _seeds(request: Request, returns: Returns, memory: MemoryFacts) -> Seeds:
    pointers: list[Parameter | Pointee] = [
        p for p in request.parameters if p.argument.type.is_pointer
    ]
    pointers += request.pointees
    duplicated = frozenset(p.memory for p in pointers if p.activity == "duplicated")
    end = returns.exit.terminator
    return Seeds(
        values=frozenset(
            p.argument
            for p in request.parameters
            if p.argument.type.is_float and p.activity != "const"
        ),
        memory=duplicated,
        constant=frozenset(p.memory for p in pointers if p.activity == "const") - duplicated,
        returned=end.operands[0] if request.returned.kind == "active" else None,
        written_only=request.filled,
        shadowable=_shadowable(request.module),
        addresses=frozenset(p.memory for p in request.parameters if p.passed.addresses)
        - duplicated,
        known=request.filled | request.copied_integers | declared_memory(request).keys(),
        handed_out=memory.escaping(end.operands[0] if end.operands else None)
        if request.returned.fresh_shadow
        else frozenset(),
    )
