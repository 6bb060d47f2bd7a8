"""Nodes: everything the reverse sweep may need of the primal, and how it can be obtained.

A node is a value of the primal (`Primal`), the shadow of a pointer (`Shadow`), the number of the
iteration that left a loop (`LeavingIteration`), the predecessor through which a block was entered
(`Taken`), the tape and results of a rule (`RuleTape`, `SavedStruct`), the address of a callee's
frame (`CalleeFrame`), that of a loop's rows (`Link`), or that of a copy of the entries which a loop
reads (`Entries`). A `Recipe` says whether a node is at hand
in the reverse sweep, can be computed from other nodes, or must be kept on the tape.
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Block, Instruction, Value


@dataclass(frozen=True)
class Primal:
    """The value itself, as computed in the iteration that the reverse sweep is reversing."""

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
    """The number (from 0) of the iteration that left `loop` through a live exit."""

    loop: Loop

    def __repr__(self) -> str:
        return f"iterations of {self.loop.header.name}"


@dataclass(frozen=True)
class Taken:
    """The index of the live predecessor through which `block` was entered."""

    block: Block

    def __repr__(self) -> str:
        return f"predecessor of {self.block.name}"


@dataclass(frozen=True)
class RuleTape:
    """The tape of a rule, which its augmented primal fills: memory of a fixed size per call."""

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
    """The address of the rows of `loop`: of the first (known length) or the last (unknown)."""

    loop: Loop

    def __repr__(self) -> str:
        return f"rows of {self.loop.header.name}"


@dataclass(frozen=True)
class CalleeFrame:
    """The address of the frame of a function of the module that is differentiated on its own."""

    call: Instruction

    def __repr__(self) -> str:
        return f"frame of {self.call.callee_name}"


@dataclass(frozen=True)
class Entries:
    """The address of a copy of the entries that `loop` has read of an array.

    first_load   the first of the loads that read them
    """

    loop: Loop
    first_load: Instruction

    def __repr__(self) -> str:
        return f"entries of {self.first_load.operands[0].ref} in {self.loop.header.name}"


Node = (
    Primal
    | Shadow
    | LeavingIteration
    | Taken
    | RuleTape
    | SavedStruct
    | CalleeFrame
    | Link
    | Entries
)


@dataclass(frozen=True)
class Recipe:
    """How to obtain a node in the reverse sweep.

    cost None: it cannot be recomputed and must be kept; 0.0 and no operands: at hand. Otherwise it
    is computed from `operands`; `cost` is the number of bytes of tape that are worth avoiding it.
    """

    operands: tuple[Node, ...] = ()
    cost: float | None = 0.0


AT_HAND = Recipe()
MUST_KEEP = Recipe((), None)
