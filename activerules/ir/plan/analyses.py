"""The analyses of the function that a request names.

Needs       a Request, the summaries of its module, the control flow and the live blocks
Gives       `Analyses`: each analysis runs when its result is first used, and again after a rewrite
            that invalidates it; `prepared`: the analyses of the rewritten function;
            `summaries_of`: the summaries of the module's functions
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property, partial

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.memory.declared import Declared, FromCaller, layout_in
from activerules.ir.analysis.memory.facts import MemoryFacts, analyse_memory
from activerules.ir.analysis.memory.objects import MemoryObject, made_by
from activerules.ir.analysis.memory.points_to import FromModule
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.summaries import CallsIn, ModuleSummaries
from activerules.ir.analysis.types.value_types import ValueTypes, analyse_value_types
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.names import RECORDS, VIEWED_RECORDS
from activerules.ir.plan.pointees import changes_pointers, without_pointees
from activerules.ir.plan.request import Request
from activerules.ir.rewrite.prepare import prepare


class Analyses:
    """The analyses of one function, computed lazily; none of them changes the function."""

    def __init__(
        self, request: Request, summaries: ModuleSummaries, flow: ControlFlow, returns: Returns
    ) -> None:
        self.request, self.flow, self.returns = request, flow, returns
        self.calls = EngineCalls(request.rules)
        self.callees = CallsIn(summaries, returns)
        self.shapes = cache(partial(summaries.shapes, request.function))

    @cached_property
    def integers(self) -> Integers:
        """The values and bounds of its integers."""
        lengths = [p.argument for p in self.request.parameters if p.length]
        return Integers(self.flow, self.request.module.types, lengths)

    @cached_property
    def memory(self) -> MemoryFacts:
        """The memory its pointers may point to, and the instructions that write it."""
        request = self.request
        by_argument = {p.argument: p for p in request.parameters}
        return analyse_memory(
            request.function,
            self.flow,
            live=self.returns.live,
            caller=FromCaller(
                group_of=lambda a: by_argument[a].group,
                private=lambda a: by_argument[a].passed.private,
                disjoint=request.caller.disjoint,
                split=request.caller.split,
                clobbered=_clobbered(request),
                targets=request.targets,
                multiples={p.argument: p.multiple for p in request.parameters if p.multiple > 1},
            ),
            module=FromModule(
                request.module.types, self.calls, self.callees, self.callees.summaries.tables
            ),
        )

    @cached_property
    def types(self) -> ValueTypes:
        """Which values and which memory may hold floats."""
        declared = declared_memory(self.request) | self._records() | self._float_memory_of_calls()
        if VIEWED_RECORDS in self.request.module.functions:
            declared = {o: replace(layout, tables=frozenset()) for o, layout in declared.items()}
        return analyse_value_types(self.request.function, self.memory, declared, self.shapes)

    def renew(self, *names: str) -> None:
        """Discard these results; they are recomputed when they are next used."""
        for name in names:
            self.__dict__.pop(name, None)

    def drop_changed_pointees(self) -> None:
        """Drop the declarations of memory behind pointers that the function may overwrite."""
        changed = changes_pointers(self.memory)
        if changed is not None:
            self.request = without_pointees(self.request, self.memory, changed)
            self.renew("memory", "types")

    def _records(self) -> dict[MemoryObject, Declared]:
        """New memory whose layout is declared where it is allocated (`RECORDS`)."""
        if VIEWED_RECORDS in self.request.module.functions:
            return {}
        declared: dict[MemoryObject, Declared] = {}
        for call in self.returns.instructions():
            name = (call.callee_name or "") if call.opcode == "call" else ""
            if name.startswith(RECORDS):
                objects = self.memory.objects(call.operands[0])
                declared |= {o: layout_in(name) for o in objects if made_by(o) is not None}
        return declared

    def _float_memory_of_calls(self) -> dict[MemoryObject, Declared]:
        """Local arrays that marked calls take or return as arrays of floats."""
        declared: dict[MemoryObject, Declared] = {}
        for call in self.returns.instructions():
            info = self.calls.marked(call) if call.opcode == "call" else None
            if info is None:
                continue
            if info.result_element is not None:
                declared[MemoryObject("result", call)] = Declared.array_of(info.result_element)
            for argument in info.arguments:
                if argument.element is not None and argument.data_operand is not None:
                    for o in self.memory.objects(call.operands[argument.data_operand]):
                        if o.kind in {"allocation", "result"}:
                            declared[o] = Declared.array_of(argument.element)
        return declared


def prepared(request: Request, summaries: ModuleSummaries) -> Analyses:
    """Rewrite the function of a request in place, and return its analyses."""
    return prepare(
        request.function,
        lambda flow, returns: Analyses(request, summaries, flow, returns),
        status=request.returned.kind == "status",
    )


def summaries_of(request: Request) -> ModuleSummaries:
    """The summaries of a module's functions, as seen from the function of the request."""
    pointers = [p for p in request.parameters if p.argument.type.is_pointer]
    holders = {p.holder for p in request.pointees}
    arrays = {
        p.memory: p.declared
        for p in pointers
        if p.declared is not None and p.declared.period and p.memory not in holders
    }
    numbers = {
        p.argument: declared
        for p in pointers
        if (declared := arrays.get(p.memory)) is not None
        and (declared.is_plain or (p.declared == declared and not declared.pointers))
    }
    outside = [
        p.argument for p in pointers if not p.passed.written_only and p.argument not in numbers
    ]
    return ModuleSummaries(request.module, EngineCalls(request.rules), outside, numbers)


def _clobbered(request: Request) -> Callable[[MemoryObject], bool]:
    """A predicate: whether memory may be overwritten between the two sweeps."""
    if not request.callee:
        return request.caller.changing.__contains__
    overwritten = frozenset(p.memory for p in request.parameters if p.passed.overwritten)
    constant = {name for name, line in request.module.globals.items() if " constant " in line}

    def clobbered(memory: MemoryObject) -> bool:
        if memory.kind == "global":
            return memory.key not in constant
        return memory in overwritten or memory.kind == "loaded"

    return clobbered


def declared_memory(request: Request) -> dict[MemoryObject, Declared]:
    """The layouts that the caller declares for the memory it passes."""
    holders = (*request.parameters, *request.pointees)
    return {p.memory: p.declared for p in holders if p.declared is not None}
