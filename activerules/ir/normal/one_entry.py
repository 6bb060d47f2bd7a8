"""Cycles of control flow with several entries get a single entry.

Needs       a Function without `switch`, its blocks reachable
Gives       `enter_once`: changes the function in place; returns whether it did
Invariants  E1  the same instructions run in the same order
            E2  afterwards every cycle is a natural loop, except those entered by an exception

A generator resumes where it stopped: in the middle of its loops. All edges to the entries of such a
cycle, from outside and from inside, are redirected to one block, which branches to the entry that
was meant. No value of the cycle dominates an entry, since control may come from outside; so only
the phis of the entries have to be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import postorder, reverse_postorder
from activerules.ir.llvm.constants import constant
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Module, Value
from activerules.ir.llvm.types import I32, Type

_PLAIN = frozenset({"br", "ret", "unreachable"})


def enter_once(module: Module) -> bool:
    """See the module docstring; for all functions that are defined."""
    changed = [_enter_once(function) for function in module.defined()]
    return any(changed)


def _enter_once(function: Function) -> bool:
    changed = False
    while True:
        blocks = reverse_postorder(function.entry)
        entered = _several_entries(blocks, blocks)
        if entered is None or any(b.terminator.opcode not in _PLAIN for b in function.blocks):
            return changed
        _send(function, list(function.blocks), entered)
        changed = True


def _several_entries(within: list[Block], blocks: list[Block]) -> list[Block] | None:
    """The entries of a cycle that has several, in a part of the function; None if there is none."""
    for cycle in _cycles(within):
        inside = set(cycle)
        entered = {t for b in blocks if b not in inside for t in b.successors if t in inside}
        if len(entered) > 1:
            return [b for b in cycle if b in entered]
        deeper = _several_entries([b for b in cycle if b not in entered], blocks)
        if deeper is not None:
            return deeper
    return None


def _cycles(within: list[Block]) -> list[list[Block]]:
    """The strongly connected components with more than one block."""
    part = set(within)
    sources: dict[Block, list[Block]] = {block: [] for block in within}
    for block in within:
        for target in block.successors:
            if target in part:
                sources[target].append(block)
    order = _postorder_of_all(within, lambda b: (t for t in b.successors if t in part))
    components: list[list[Block]] = []
    remaining = part
    for block in reversed(order):
        if block in remaining:
            component = set(
                postorder(
                    block, lambda b, remaining=remaining: (s for s in sources[b] if s in remaining)
                )
            )
            remaining = remaining - component
            components.append([b for b in within if b in component])
    return [component for component in components if len(component) > 1]


def _postorder_of_all(
    within: list[Block], targets_of: Callable[[Block], Iterable[Block]]
) -> list[Block]:
    order: dict[Block, None] = {}
    for start in within:
        if start not in order:
            seen = set(order)
            order |= dict.fromkeys(
                postorder(start, lambda b, seen=seen: (t for t in targets_of(b) if t not in seen))
            )
    return list(order)


def _send(function: Function, blocks: list[Block], entries: list[Block]) -> None:
    """Redirect all paths to `entries` through one block."""
    namer = Namer("enter", function.local_names())
    sender = Block(namer("enter"), parent=function)
    detours: list[tuple[Block, Block, Block]] = []
    for origin in blocks:
        for k, target in enumerate(origin.successors):
            if target in entries:
                detour = Block(namer("detour"), parent=function)
                Builder(detour, namer).br(sender)
                origin.successors[k] = detour
                detours.append((detour, origin, target))
    b = Builder(sender, namer)
    moved = {phi: _merged(b, phi, detours) for entry in entries for phi in entry.phis}
    numbers: list[Value] = [constant(I32, entries.index(target)) for _, _, target in detours]
    number = b.emit("phi", I32, numbers, blocks=[detour for detour, _, _ in detours])
    added = [sender, *(detour for detour, _, _ in detours)]
    for k, entry in enumerate(entries[:-1]):
        last = k == len(entries) - 2
        otherwise = entries[-1] if last else Block(namer("enter"), parent=function)
        b.cond_br(b.icmp("eq", number, constant(I32, k)), entry, otherwise)
        for to in [entry, otherwise] if last else [entry]:
            for phi in to.phis:
                phi.operands, phi.blocks = [moved[phi]], [_block_of(b)]
        if not last:
            added.append(otherwise)
            b = Builder(otherwise, namer)
    function.blocks += added


def _block_of(b: Builder) -> Block:
    assert isinstance(b.target, Block)
    return b.target


def _merged(b: Builder, phi: Instruction, detours: list[tuple[Block, Block, Block]]) -> Instruction:
    """The value of a phi of an entry for every incoming edge; zero for edges to other entries."""
    taken = dict(zip(phi.blocks, phi.operands, strict=True))
    values = [
        taken[origin] if target is phi.owner else _nothing(phi.type)
        for _, origin, target in detours
    ]
    return b.emit("phi", phi.type, values, blocks=[detour for detour, _, _ in detours])


def _nothing(t: Type) -> Value:
    if t.is_float or t.is_int:
        return constant(t, 0)
    return constant(t, None) if t.is_pointer else Constant(t, "zeroinitializer")
