"""The analyses of one function, as a request has them made.

Needs       a Request, the summaries of its module, the control flow and the live blocks
Gives       `Analyses`: each made when it is first asked for, and made anew where a rewrite has
            changed what it is about; `prepared`: behind the rewrites; `summaries_of`: of the module
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.memory.facts import MemoryFacts, analyse_memory
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.summaries import CallsIn, ModuleSummaries
from activerules.ir.analysis.types.value_types import ValueTypes, analyse_value_types
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.plan.pointees import changes_pointers, without_pointees
from activerules.ir.plan.request import Request
from activerules.ir.rewrite.prepare import prepare


class Analyses:
    """What is known of a function; none of it changes the function."""

    def __init__(
        self, request: Request, summaries: ModuleSummaries, flow: ControlFlow, returns: Returns
    ) -> None:
        self.request, self.flow, self.returns = request, flow, returns
        self.calls = EngineCalls(request.rules)
        self.callees = CallsIn(summaries, returns)
        self.shapes = cache(partial(summaries.shapes, request.function))

    @cached_property
    def integers(self) -> Integers:
        """What its integers are."""
        lengths = [p.argument for p in self.request.parameters if p.length]
        return Integers(self.flow, self.request.module.types, lengths)

    @cached_property
    def memory(self) -> MemoryFacts:
        """What its pointers lead to, and who writes there."""
        by_argument = {p.argument: p for p in self.request.parameters}
        return analyse_memory(
            self.request.function,
            self.flow,
            group_of=lambda a: by_argument[a].group,
            private=lambda a: by_argument[a].private,
            disjoint=self.request.disjoint,
            marked=self.calls.marked_effect,
            arithmetic=self.calls.is_arithmetic,
            named_types=self.request.module.types,
            live=self.returns.live,
            split=self.request.split,
            callees=self.callees,
            clobbered=_clobbered(self.request),
            targets=self.request.targets,
            multiples={p.argument: p.multiple for p in self.request.parameters if p.multiple > 1},
        )

    @cached_property
    def types(self) -> ValueTypes:
        """Where floats are."""
        declared = declared_memory(self.request) | self._float_memory_of_calls()
        return analyse_value_types(self.request.function, self.memory, declared, self.shapes)

    def renew(self, *names: str) -> None:
        """Discard these; they are computed again when next asked for."""
        for name in names:
            self.__dict__.pop(name, None)

    def drop_changed_pointees(self) -> None:
        """Let the request declare nothing behind pointers that the function may change."""
        changed = changes_pointers(self.memory)
        if changed is not None:
            self.request = without_pointees(self.request, self.memory, changed)
            self.renew("memory", "types")

    def _float_memory_of_calls(self) -> dict[MemoryObject, Declared]:
        """Local arrays that only marked calls read or write are arrays of floats, too."""
        found: dict[MemoryObject, Declared] = {}
        for block in self.returns.live:
            for call in block.instructions:
                info = self.calls.marked(call) if call.opcode == "call" else None
                if info is None:
                    continue
                if info.result_element is not None:
                    found[MemoryObject("result", call)] = Declared.array_of(info.result_element)
                for argument in info.arguments:
                    if argument.element is not None and argument.data_operand is not None:
                        for o in self.memory.objects(call.operands[argument.data_operand]):
                            if o.kind in {"allocation", "result"}:
                                found[o] = Declared.array_of(argument.element)
        return found


def prepared(request: Request, summaries: ModuleSummaries) -> Analyses:
    """The analyses of the function of a request, which is rewritten in place first."""
    return prepare(
        request.function,
        lambda flow, returns: Analyses(request, summaries, flow, returns),
        status=request.returns == "status",
    )


def summaries_of(request: Request) -> ModuleSummaries:
    """Of the functions of a module, for the one a user named."""
    pointers = [p for p in request.parameters if p.argument.type.is_pointer]
    declared = {p.memory for p in pointers if p.declared is not None and p.declared.is_plain}
    declared -= {p.holder for p in request.pointees}
    plain = [p.argument for p in pointers if p.memory in declared]
    outside = [p.argument for p in pointers if not p.written_only and p.argument not in plain]
    return ModuleSummaries(request.module, EngineCalls(request.rules), outside, plain)


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


def declared_memory(request: Request) -> dict[MemoryObject, Declared]:
    """What the caller declares of the memory it passes."""
    holders = (*request.parameters, *request.pointees)
    return {p.memory: p.declared for p in holders if p.declared is not None}
