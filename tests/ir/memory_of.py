"""The memory facts of a function as tests ask for them: each argument is a group of its own."""

from __future__ import annotations

from typing import Any

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.facts import MemoryFacts, analyse_memory
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.model import Function, Module


def memory_of(module: Module, function: Function, flow: ControlFlow, **others: Any) -> MemoryFacts:
    """What `analyse_memory` says; no other pointer reaches what a `noalias` argument points to.

    others   arguments of `analyse_memory` that differ from that
    """
    usual: dict[str, Any] = {
        "group_of": lambda a: a.name,
        "private": lambda a: "noalias" in a.attributes,
        "disjoint": False,
        "calls": EngineCalls(None),
        "named_types": module.types,
        "live": flow.order,
    }
    return analyse_memory(function, flow, **usual | others)
