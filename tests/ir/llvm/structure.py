"""Comparing modules part by part."""

from typing import Any

from activerules.ir.llvm.model import Function, Instruction, Module


def structure(item: Module | Function) -> tuple[Any, ...]:
    """A tuple that is equal for two modules (or functions) exactly if they are the same.

    It holds all text, flags, operands and attributes. Values are compared by name, for identity
    does not survive parsing.
    """
    if isinstance(item, Module):
        return (
            tuple(item.header),
            tuple((name, str(t)) for name, t in item.types.items()),
            tuple(item.globals.items()),
            tuple(structure(f) for f in item.functions.values()),
            tuple(item.trailer),
        )
    arguments = tuple((a.name, str(a.type), a.attributes) for a in item.arguments)
    blocks = tuple(
        (b.name, tuple(map(_instruction_structure, b.instructions))) for b in item.blocks
    )
    return (item.name, str(item.result), item.prefix, item.suffix, item.vararg, arguments, blocks)


def _instruction_structure(i: Instruction) -> tuple[Any, ...]:
    return (
        i.opcode,
        i.name,
        str(i.type),
        i.flags,
        tuple(f"{v.type} {v.ref}" for v in i.operands),
        tuple(b.name for b in i.blocks),
        i.callee and i.callee.ref,
        tuple(sorted((k, str(v)) for k, v in i.attributes.items())),
    )
