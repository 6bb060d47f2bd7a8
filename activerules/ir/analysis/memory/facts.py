"""Memory: what a pointer may point to, and whether that memory may change later.

Needs       a Function in normal form; its ControlFlow; what is known of its caller and its module
Gives       MemoryFacts, frozen: objects(pointer), may_alias(p, q), changes.overwritten(load)
Invariants  M1  every address a pointer may hold at run time lies in one of its objects
            M2  two pointers that may hold the same address share an object, or an object of one
                `may_overlap` an object of the other
            M3  `changes.overwritten(i, p)` is False only if no path from `i` to the return writes
                to what `p` points to
            M4  a marked call in `readers` stores pointers only in the memory given there

`ir/analysis/memory/objects.py` defines the objects; `ir/analysis/memory/points_to.py` establishes
M1. What is asked of the facts is in `pointees`, `aliasing` and `changes`, from the ground up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from activerules.ir.analysis.memory.aliasing import Aliasing
from activerules.ir.analysis.memory.changes import Changes
from activerules.ir.analysis.memory.declared import FromCaller
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.memory.points_to import FromModule, Solver
from activerules.ir.analysis.memory.writes import writes_of
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Block, Function, Instruction


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryFacts(Aliasing):
    """Frozen result of `analyse_memory`; the invariants are in the module docstring."""

    @cached_property
    def changes(self) -> Changes:
        """Which writes may change memory, and when."""
        return Changes(self)


def analyse_memory(
    function: Function,
    flow: ControlFlow,
    *,
    live: Collection[Block],
    caller: FromCaller,
    module: FromModule,
) -> MemoryFacts:
    """Points-to sets by fixpoint iteration.

    live   blocks on a path to a successful return: only their writes matter to a reverse sweep
    """
    solver = Solver(flow, caller, module)
    for argument in function.arguments:
        if argument.type.is_pointer:
            group, private = caller.group_of(argument), caller.private(argument)
            solver.point(argument, {MemoryObject("argument", group, private)})
    solver.solve()
    instructions = [i for block in flow.order if block in live for i in block.instructions]
    return MemoryFacts(
        points_to={v: frozenset(s) for v, s in solver.points_to.items()},
        contents={o: frozenset(s) for o, s in solver.contents.items()},
        copy_sources={o: frozenset(s) for o, s in solver.copy_sources.items()},
        integer_sources={o: frozenset(s) for o, s in solver.integer_sources.items()},
        tables=module.tables,
        called=solver.called,
        readers=_readers(solver),
        writes=tuple(write for i in instructions for write in writes_of(i, solver)),
        flow=flow,
        caller=caller,
        named_types=module.types,
        starts_of={
            i: target
            for i, target in solver.starts_of.items()
            if solver.points_to[i] == {target.memory}
        },
    )


def _readers(solver: Solver) -> dict[Instruction, frozenset[MemoryObject]]:
    """The marked calls that keep and return none of the pointers they are given; per call, the
    memory in which they may store pointers.
    """
    readers: dict[Instruction, frozenset[MemoryObject]] = {}
    for i in (i for block in solver.flow.order for i in block.instructions if i.opcode == "call"):
        effect = solver.calls.marked_effect(i)
        if effect is None or effect.hands_out or (effect.follows and effect.replaces_pointers):
            continue
        holders = set(effect.writes).difference(effect.follows)
        written = {o for k in holders for o in solver.objects(i.operands[k])}
        readers[i] = frozenset(closure(written, solver.pointees))
    return readers
