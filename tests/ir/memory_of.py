"""The memory facts of a function as tests ask for them: each argument is a group of its own."""

from __future__ import annotations

from typing import Any

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.callee import Groups, Summaries, Summary
from activerules.ir.analysis.memory.declared import FromCaller
from activerules.ir.analysis.memory.facts import MemoryFacts, analyse_memory
from activerules.ir.analysis.memory.points_to import FromModule
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.model import Function, Instruction, Module


class NoSummaries:
    """Nothing is known of the functions of the module; a `Summaries`."""

    def is_derived(self, call: Instruction) -> bool:
        return False

    def summary(self, call: Instruction, groups: Groups, apart: bool) -> Summary:
        raise NotImplementedError


def memory_of(
    module: Module,
    function: Function,
    flow: ControlFlow,
    *,
    calls: EngineCalls | None = None,
    callees: Summaries | None = None,
    **of_caller: Any,
) -> MemoryFacts:
    """What `analyse_memory` says; no other pointer reaches what a `noalias` argument points to.

    of_caller   fields of `FromCaller` that differ from that
    """
    usual = {"group_of": lambda a: a.name, "private": lambda a: "noalias" in a.attributes}
    return analyse_memory(
        function,
        flow,
        live=flow.order,
        caller=FromCaller(**usual | of_caller),
        module=FromModule(module.types, calls or EngineCalls(None), callees or NoSummaries(), {}),
    )
