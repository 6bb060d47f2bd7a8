"""Structs of eight bytes that are copied in one integer are copied as memory again.

Needs       a module in normal form
Gives       `move_structs(module)`: the load of such an integer and its store become a `memmove`, if
            they are aligned as the parts of a struct are; it is kept in memory of its own where it
            is stored more than once, or after something else was written
Invariants  B3  memory has the bytes it had

LLVM makes `load i64` and `store i64` of a `memcpy` of eight bytes. If those are two floats, or a
float and an integer, no float has their bits; of a copy, it is known where the floats are.
"""

from __future__ import annotations

from collections import defaultdict

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.model import Function, Instruction, Module, Value
from activerules.ir.llvm.types import DOUBLE, FLOAT, I1, I64, VOID

_MOVE = "llvm.memmove.p0.p0.i64"


def move_structs(module: Module) -> None:
    """Rewrite the functions of a module that has floats of four bytes, or none, in place."""
    kinds = {i.type for function in module.defined() for i in function.instructions()}
    if DOUBLE in kinds and FLOAT not in kinds:
        return
    for function in module.defined():
        users: dict[Value, list[Instruction]] = defaultdict(list)
        for i in function.instructions():
            for operand in i.operands:
                users[operand].append(i)
        loads = {i: users[i] for i in function.instructions() if _is_moved(i, users[i])}
        if loads:
            _rewrite(function, loads)


def _is_moved(i: Instruction, users: list[Instruction]) -> bool:
    """Whether this is a load that is only stored."""
    if i.opcode != "load" or i.type is not I64 or not users or not _is_struct(i):
        return False
    return all(u.opcode == "store" and u.operands[1] is not i and _is_struct(u) for u in users)


def _is_struct(access: Instruction) -> bool:
    return access.is_ordinary and access.attributes.get("align", 8) < 8


def _rewrite(function: Function, loads: dict[Instruction, list[Instruction]]) -> None:
    namer = Namer("moved", function.local_names())
    kept: list[Instruction] = []
    sources = {
        load: load.operands[0]
        if len(stores) == 1 and _is_still_there(load, stores[0])
        else Builder(kept, namer).alloca(I64, align=8)
        for load, stores in loads.items()
    }
    for block in function.blocks:
        old, block.instructions = block.instructions, []
        b = Builder(block.instructions, namer)
        for i in old:
            value = i.operands[0] if i.opcode == "store" else i
            if not isinstance(value, Instruction) or value not in sources:
                block.instructions.append(i)
                continue
            source = sources[value]
            ends = [source, i.operands[0]] if value is i else [i.operands[1], source]
            if value is not i or source is not i.operands[0]:
                move = b.call(_MOVE, VOID, [*ends, b.const(I64, 8), b.const(I1, 0)])
                move.attributes |= {k: v for k, v in i.attributes.items() if k == "location"}
    function.entry.instructions = [*kept, *function.entry.instructions]
    for block in function.blocks:
        for i in block.instructions:
            i.parent = block


def _is_still_there(load: Instruction, store: Instruction) -> bool:
    """Whether nothing is written between the two."""
    if load.owner is not store.owner:
        return False
    instructions = load.owner.instructions
    between = instructions[instructions.index(load) + 1 : instructions.index(store)]
    return not any(i.opcode in {"store", "call"} for i in between)
