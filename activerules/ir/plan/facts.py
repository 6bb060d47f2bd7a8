"""Facts: what the analyses say of a function, before anything is decided. Both modes start here.

Needs       a Request
Gives       Facts, frozen: control flow, memory, types and activity of the function, which is
            brought to the last details of the normal form in place
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from activerules.errors import MixedActivity
from activerules.ir.analysis.activity import Activity, Seeds, analyse_activity
from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.memory.facts import MemoryFacts, analyse_memory
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.returns import Returns, analyse_returns
from activerules.ir.analysis.soundness import refuse_unsound
from activerules.ir.analysis.summaries import CallsIn, ModuleSummaries
from activerules.ir.analysis.types.value_types import ValueTypes, analyse_value_types
from activerules.ir.llvm.cfg import ControlFlow, control_flow
from activerules.ir.llvm.model import Instruction, Module, Value
from activerules.ir.llvm.verbatim import type_of_numbers
from activerules.ir.normal import normal_form
from activerules.ir.plan.dictionaries import explained
from activerules.ir.plan.pointees import changes_pointers, without_pointees
from activerules.ir.plan.request import Parameter, Pointee, Request
from activerules.ir.rewrite.decide import decide
from activerules.ir.rewrite.forward_loads import forward_loads
from activerules.ir.rewrite.retype import retype_float_copies, retype_pointer_copies


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
        """Per operand, whether its cotangent is asked for."""
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

    def _is_from_outside(self, pointer: Value) -> bool:
        """Whether a pointer may point to memory whose contents only the caller knows."""
        known = self.request.filled | self.request.copied_integers | self.types.declared.keys()
        return any(not o.is_local and o not in known for o in self.memory.objects(pointer))


def analyse(request: Request, summaries: ModuleSummaries | None = None) -> Facts:
    """Run the analyses; `summaries` of the module are made if there are none yet.

    Raises what they raise: programs the engine does not differentiate end here.
    """
    function = request.function
    normal_form.tidy(function)
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=request.returns == "status")
    normal_form.check(function, flow, returns.live)
    integers = integers_of(request, flow)
    if decide(function, integers):
        integers = integers_of(request, flow)
    calls = EngineCalls(request.rules)
    summaries = summaries if summaries is not None else summaries_of(request)
    callees = CallsIn(summaries, returns)
    shapes = cache(partial(summaries.shapes, function))
    memory = _memory(request, flow, returns, calls, callees)
    changed = changes_pointers(memory)
    if changed is not None:
        request = without_pointees(request, memory, changed)
        memory = _memory(request, flow, returns, calls, callees)
    if memory.integer_sources and retype_pointer_copies(
        function, analyse_value_types(function, memory, {}, shapes)
    ):
        memory = _memory(request, flow, returns, calls, callees)
    # a rewrite must be right for overlapping arguments, too: the two versions share the function
    anywhere = replace(memory, disjoint=False)
    if forward_loads(function, flow, anywhere, Dependence(integers), returns.live):
        integers = integers_of(request, flow)
    declared = _declared_memory(request) | _float_memory_of_calls(memory, returns, calls)
    types = analyse_value_types(function, memory, declared, shapes)
    if retype_float_copies(function, types):
        types = analyse_value_types(function, memory, declared, shapes)
    seeds = _seeds(request, returns, memory)
    activity = analyse_activity(memory, types, returns, calls, seeds)
    try:
        refuse_unsound(activity, types, returns, calls, seeds)
    except MixedActivity as error:
        raise explained(error, memory, request.module) from None
    return Facts(request, flow, returns, memory, types, activity, calls, callees, integers)


def _memory(
    request: Request, flow: ControlFlow, returns: Returns, calls: EngineCalls, callees: CallsIn
) -> MemoryFacts:
    by_argument = {p.argument: p for p in request.parameters}
    return analyse_memory(
        request.function,
        flow,
        group_of=lambda a: by_argument[a].group,
        private=lambda a: by_argument[a].private,
        disjoint=request.disjoint,
        marked=calls.marked_effect,
        arithmetic=calls.is_arithmetic,
        named_types=request.module.types,
        live=returns.live,
        split=request.split,
        callees=callees,
        clobbered=_clobbered(request),
        targets=request.targets,
        multiples={p.argument: p.multiple for p in request.parameters if p.multiple > 1},
    )


def summaries_of(request: Request) -> ModuleSummaries:
    """Of the functions of a module, for the one a user named."""
    pointers = [p for p in request.parameters if p.argument.type.is_pointer]
    declared = {p.memory for p in pointers if p.declared is not None and p.declared.is_plain}
    declared -= {p.holder for p in request.pointees}
    plain = [p.argument for p in pointers if p.memory in declared]
    outside = [p.argument for p in pointers if not p.written_only and p.argument not in plain]
    return ModuleSummaries(request.module, EngineCalls(request.rules), outside, plain)


def integers_of(request: Request, flow: ControlFlow) -> Integers:
    """What the integers of a function are, with nothing asked yet."""
    lengths = [p.argument for p in request.parameters if p.length]
    return Integers(flow, request.module.types, lengths)


def _clobbered(request: Request) -> Callable[[MemoryObject], bool]:
    """Memory that may change between the two sweeps: of a callee, or as the request says."""
    if not request.callee:
        return request.changing.__contains__
    overwritten = frozenset(p.memory for p in request.parameters if p.overwritten)
    constant = {name for name, line in request.module.globals.items() if " constant " in line}

    def clobbered(memory: MemoryObject) -> bool:
        if memory.kind == "global":
            return memory.key not in constant
        return memory in overwritten or memory.kind == "loaded"

    return clobbered


def _declared_memory(request: Request) -> dict[MemoryObject, Declared]:
    holders = (*request.parameters, *request.pointees)
    return {p.memory: p.declared for p in holders if p.declared is not None}


def _float_memory_of_calls(
    memory: MemoryFacts, returns: Returns, calls: EngineCalls
) -> dict[MemoryObject, Declared]:
    """Local arrays that only marked calls read or write are arrays of floats, too."""
    found: dict[MemoryObject, Declared] = {}
    for block in returns.live:
        for call in block.instructions:
            info = calls.marked(call) if call.opcode == "call" else None
            if info is None:
                continue
            if info.result_element is not None:
                found[MemoryObject("result", call)] = Declared.array_of(info.result_element)
            for argument in info.arguments:
                if argument.element is not None and argument.data_operand is not None:
                    for o in memory.objects(call.operands[argument.data_operand]):
                        if o.kind in {"allocation", "result"}:
                            found[o] = Declared.array_of(argument.element)
    return found


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
        returned=end.operands[0] if request.returns == "active" else None,
        written_only=request.filled,
        shadowable=_shadowable(request.module),
        known=request.filled | request.copied_integers | _declared_memory(request).keys(),
        handed_out=memory.escaping(end.operands[0] if end.operands else None)
        if request.fresh_shadow
        else frozenset(),
    )
