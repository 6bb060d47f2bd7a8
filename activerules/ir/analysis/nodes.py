"""Nodes: everything the reverse sweep may need to know again, and how each can be had.

A node is a value of the primal (`Primal`), the shadow of a pointer (`Shadow`), the number of the
iteration that left a loop (`LeavingIteration`), which predecessor was taken into a join (`Taken`),
what a rule left (`RuleTape`, `SavedStruct`), where the frame of a callee is (`CalleeFrame`), or
where the rows of a loop are (`Link`). A `Recipe`
says whether a node is at hand in the reverse sweep, can be computed from other nodes, or must be
kept on the tape.
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Block, Instruction, Value


@dataclass(frozen=True)
class Primal:
    """The value itself, as computed in the iteration the reverse sweep is undoing."""

    value: Value

    def __repr__(self) -> str:
        return self.value.ref


@dataclass(frozen=True)
class Shadow:
    """The pointer into shadow memory that belongs to a pointer."""

    value: Value

    def __repr__(self) -> str:
        return f"shadow of {self.value.ref}"


@dataclass(frozen=True)
class LeavingIteration:
    """Number (from 0) of the iteration that left `loop` through a live exit."""

    loop: Loop

    def __repr__(self) -> str:
        return f"iterations of {self.loop.header.name}"


@dataclass(frozen=True)
class Taken:
    """Index of the live predecessor through which `block` was entered."""

    block: Block

    def __repr__(self) -> str:
        return f"predecessor of {self.block.name}"


@dataclass(frozen=True)
class RuleTape:
    """What a rule's augmented primal leaves for its reverse: memory of a fixed size per call."""

    call: Instruction
    size: int
    alignment: int

    def __repr__(self) -> str:
        return f"rule tape of {self.call.callee_name}"


@dataclass(frozen=True)
class SavedStruct:
    """A copy of the struct a marked call returned, or of its shadow, right after the call."""

    call: Instruction
    shadow: bool
    size: int

    def __repr__(self) -> str:
        return f"{'shadow of the ' if self.shadow else ''}result of {self.call.callee_name}"


@dataclass(frozen=True)
class Link:
    """Where the rows of `loop` are: their base (known length) or the last one (unknown length)."""

    loop: Loop

    def __repr__(self) -> str:
        return f"rows of {self.loop.header.name}"


@dataclass(frozen=True)
class CalleeFrame:
    """Where a function of the module, differentiated on its own, left its frame at a call."""

    call: Instruction

    def __repr__(self) -> str:
        return f"frame of {self.call.callee_name}"


Node = Primal | Shadow | LeavingIteration | Taken | RuleTape | SavedStruct | CalleeFrame | Link


@dataclass(frozen=True)
class Recipe:
    """How to have a node in the reverse sweep.

    cost None: it cannot be computed again and must be kept; 0.0 and no operands: at hand. Otherwise
    it is computed from `operands` at `cost`, measured in bytes of tape one would rather spend.
    """

    operands: tuple[Node, ...] = ()
    cost: float | None = 0.0


AT_HAND = Recipe()
MUST_KEEP = Recipe((), None)
