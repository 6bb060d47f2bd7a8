"""Copies of functions, which share nothing that a pass may change with the original."""

from __future__ import annotations

from activerules.ir.llvm.model import Argument, Block, Function, Instruction, Value


def copy_function(function: Function) -> Function:
    """A copy with instructions, blocks and parameters of its own, all named as before."""
    values: dict[Value, Value] = {}
    arguments: list[Argument] = []
    for old in function.arguments:
        argument = values[old] = Argument(old.name, old.type, old.attributes)
        arguments.append(argument)
    blocks = {old: Block(old.name) for old in function.blocks}
    copies: list[Instruction] = []
    for old_block, block in blocks.items():
        for i in old_block.instructions:
            copied = block.append(
                Instruction(
                    i.opcode,
                    i.type,
                    list(i.operands),
                    i.name,
                    i.flags,
                    [blocks[b] for b in i.blocks],
                    i.callee,
                    dict(i.attributes),
                )
            )
            values[i] = copied
            copies.append(copied)
    for copy in copies:
        copy.operands = [values.get(o, o) for o in copy.operands]
        if copy.callee is not None:
            copy.callee = values.get(copy.callee, copy.callee)
    result = Function(
        function.name,
        function.result,
        arguments,
        list(blocks.values()),
        function.prefix,
        function.suffix,
        function.vararg,
    )
    for block in result.blocks:
        block.parent = result
    return result
