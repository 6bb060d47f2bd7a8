"""Innermost loops over axes that may have length one: versions of each for the usual shapes.

Needs       generated functions, before they are printed; marks of `ir/normal/short_axes`
Gives       `version_plain_loops`: an innermost loop with marked subscripts (`condition ? i : 0`)
            gets a version in which all of them are `i`; if they have at most three conditions, also
            one for each condition, in which its subscripts are 0. The loop itself runs for any
            other shapes
Invariants  L1  each version computes what the loop did; which one runs is decided where it is
                entered, by conditions that do not change in it
            L2  a loop gets no versions if its values are used elsewhere but by the phis of its
                exits, if it is large, or if its text names values that the model does not know

LLVM makes such versions itself, by loop unswitching: one for each combination of conditions, in the
first few loops of a function. The others it vectorises with gathers, and leaves reverse sweeps as
they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile
from typing import TypeGuard

from activerules.ir.generate.sweep import UNCHANGED
from activerules.ir.llvm.builder import Builder, Namer, add_incoming
from activerules.ir.llvm.cfg import Loop, control_flow_if_reducible
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Value
from activerules.ir.llvm.types import I1, I32
from activerules.ir.normal.short_axes import ENTRY, SHORT_AXIS

# instructions of the largest loop that is copied; LLVM's own limit is similar
_LARGEST = 80
# a loop with more conditions has a plain version only
_MOST_CONDITIONS = 3
_PURE = frozenset(("icmp", "getelementptr", "trunc", "zext", "sext", "add", "mul"))

Key = Hashable


def version_plain_loops(functions: Iterable[Function]) -> None:
    """Make the versions, but not in functions that are kept small."""
    for function in functions:
        if "minsize" in function.suffix:
            continue
        marked = [i for i in function.instructions() if i.attributes.get(SHORT_AXIS) == ENTRY]
        flow = control_flow_if_reducible(function) if marked else None
        if flow is None:
            continue
        namer, variables = Namer("plain", function.local_names()), _variables(function)
        for loop in flow.loops:
            inside = [i for i in marked if i.parent in loop.blocks]
            if inside and not loop.children:
                _Versions(function, loop, inside, variables, namer).make()


class _Versions:
    def __init__(
        self,
        function: Function,
        loop: Loop,
        marked: Sequence[Instruction],
        variables: set[Value],
        namer: Namer,
    ) -> None:
        self.function, self.loop, self.marked, self.namer = function, loop, marked, namer
        self.blocks = [b for b in function.blocks if b in loop.blocks]
        # loads that run whenever the loop is entered, always with the same result
        beginning = takewhile(lambda i: i.opcode != "call", loop.header.instructions)
        stored = {o for b in self.blocks for i in b.instructions for o in _stored_to(i)}
        self.steady = {
            i
            for i in beginning
            if UNCHANGED in i.attributes
            or (i.opcode == "load" and i.operands[0] in variables - stored)
        }

    def __contains__(self, block: Block | None) -> bool:
        return block in self.loop.blocks

    def make(self) -> None:
        """Put the versions beside the loop, unless L2 forbids it."""
        header, deciding = self.loop.header, self._new_block()
        b = Builder(deciding, self.namer)
        conditions = self._conditions(b)
        if conditions is None or not self._can_be_copied():
            return
        different = [*dict.fromkeys(conditions.values())]
        which = _as_number(b, different)
        entered_with, added, cases = self._enter(deciding), [deciding], list[tuple[int, Block]]()
        all_hold = (1 << len(different)) - 1
        shorts: dict[int, Value | None] = {all_hold: None}
        if len(different) <= _MOST_CONDITIONS:
            shorts |= {all_hold - (1 << k): c for k, c in enumerate(different)}
        for number, short in shorts.items():
            blocks, copies = self._copied(
                {i: _subscript(i, is_plain=conditions[i] is not short) for i in self.marked}
            )
            for phi, value in entered_with.items():
                add_incoming(copies[phi], value, deciding)
            cases.append((number, blocks[header]))
            added += blocks.values()
        for phi, value in entered_with.items():
            add_incoming(phi, value, deciding)
        b.switch(which, header, cases)
        at = self.function.blocks.index(header)
        self.function.blocks[at:at] = added

    def _new_block(self) -> Block:
        return Block(self.namer("plain"), parent=self.function)

    def _conditions(self, b: Builder) -> dict[Instruction, Value] | None:
        """For each marked subscript what holds if it is plain, computed in front of the loop; None
        where that is not known there.
        """
        known: dict[Key, Value] = {}
        conditions: dict[Instruction, Value] = {}
        for i in self.marked:
            condition, first, _ = i.operands
            key = self._key(condition)
            if key is None:
                return None
            is_plain = isinstance(first, Constant)
            if (is_plain, key) not in known:
                # a branch must not depend on poison; a subscript may, if it is not used
                here = b.emit("freeze", I1, [self._computed(condition, b)])
                known[is_plain, key] = _inverse(b, here) if is_plain else here
            conditions[i] = known[is_plain, key]
        return conditions

    def _key(self, value: Value) -> Key | None:
        """Equal for values that are computed alike; None for one that may change in the loop."""
        if isinstance(value, Constant):
            return value.ref
        if not self._is_inside(value):
            return value
        may_move = value.opcode in _PURE or value in self.steady
        operands = [self._key(o) for o in value.operands] if may_move else [None]
        if None in operands:
            return None
        how = value.attributes.get("predicate"), value.attributes.get("source")
        return value.opcode, value.type, *how, *operands

    def _computed(self, value: Value, b: Builder) -> Value:
        """A value that does not change in the loop, in front of it."""
        if not self._is_inside(value):
            return value
        operands, own = [self._computed(o, b) for o in value.operands], dict(value.attributes)
        copy = replace(value, name=self.namer(), operands=operands, flags=(), attributes=own)
        return b.append(copy)

    def _is_inside(self, value: Value) -> TypeGuard[Instruction]:
        return isinstance(value, Instruction) and value.parent in self

    def _can_be_copied(self) -> bool:
        inside = {i for block in self.blocks for i in block.instructions}
        return (
            len(inside) <= _LARGEST
            and not any(map(_names_values, inside))
            and not any(
                value in inside and not (i.opcode == "phi" and i.blocks[k] in self)
                for i in self.function.instructions()
                if i not in inside
                for k, value in enumerate(i.operands)
            )
        )

    def _enter(self, deciding: Block) -> dict[Instruction, Value]:
        """Lead the edges into the loop to a block in front of it; return the values that the phis
        of the header have there.
        """
        header = self.loop.header
        for block in self.function.blocks:
            if header in block.successors and block not in self:
                end = block.terminator
                end.blocks = [deciding if o is header else o for o in end.blocks]
        values: dict[Instruction, Value] = {}
        for phi in header.phis:
            edges = [*zip(phi.operands, phi.blocks, strict=True)]
            outer = [(value, block) for value, block in edges if block not in self]
            inner = [(value, block) for value, block in edges if block in self]
            phi.operands, phi.blocks = [v for v, _ in inner], [block for _, block in inner]
            values[phi] = outer[0][0]
            if len(outer) > 1:
                merged = Instruction("phi", phi.type, [v for v, _ in outer], self.namer())
                merged.blocks = [block for _, block in outer]
                deciding.insert(0, merged)
                values[phi] = merged
        return values

    def _leaving(self) -> list[tuple[Instruction, Block, Value]]:
        """The phis of the exits, with each block of the loop that they come from, and the value."""
        exits = {o for block in self.blocks for o in block.successors if o not in self}
        return [
            (phi, block, value)
            for phi in (phi for o in exits for phi in o.phis)
            for value, block in zip(phi.operands, phi.blocks, strict=True)
            if block in self
        ]

    def _copied(
        self, subscripts: Mapping[Value, Value]
    ) -> tuple[dict[Block, Block], dict[Value, Instruction]]:
        """The copies of the blocks of the loop, and of its instructions, with other subscripts."""
        blocks = {block: self._new_block() for block in self.blocks}
        copies: dict[Value, Instruction] = {}

        def copied(value: Value) -> Value:
            while value in subscripts:
                value = subscripts[value]
            return copies.get(value, value)

        for block, copy in blocks.items():
            for i in block.instructions:
                if i not in subscripts:
                    name = None if i.name is None else self.namer()
                    targets, own = [blocks.get(o, o) for o in i.blocks], dict(i.attributes)
                    copies[i] = copy.append(replace(i, name=name, blocks=targets, attributes=own))
        for copy in copies.values():
            copy.operands = [copied(o) for o in copy.operands]
        for phi, block, value in self._leaving():
            add_incoming(phi, copied(value), blocks[block])
        return blocks, copies


def _stored_to(i: Instruction) -> Sequence[Value]:
    return i.operands[1:] if i.opcode == "store" else ()


def _variables(function: Function) -> set[Value]:
    """The stack memory of a function that is only loaded from and stored to, as a whole."""
    variables: set[Value] = {i for i in function.instructions() if i.opcode == "alloca"}
    for i in function.instructions():
        if i.opcode != "load":
            variables.difference_update(i.operands[:1] if i.opcode == "store" else i.operands)
    return variables


def _inverse(b: Builder, condition: Value) -> Value:
    return b.binary("xor", condition, b.const(I1, 1))


def _as_number(b: Builder, conditions: Sequence[Value]) -> Value:
    """The conditions as the bits of a number, the first one as the lowest."""
    bits = [
        b.binary("shl", b.cast("zext", condition, I32), b.const(I32, k))
        for k, condition in enumerate(conditions)
    ]
    return reduce(lambda x, y: b.binary("or", x, y), bits)


def _subscript(i: Instruction, *, is_plain: bool) -> Value:
    """What a marked select chooses: the counter along a longer axis, 0 along one of length one."""
    _, first, second = i.operands
    return second if isinstance(first, Constant) == is_plain else first


def _names_values(i: Instruction) -> bool:
    """Whether an instruction may name values in text that is kept as it is."""
    return "verbatim" in i.attributes or "%" in i.attributes.get("call_attributes", "")
