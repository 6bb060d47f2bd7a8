"""What a function of the module does to memory, in terms of the operands of the call.

Gives       Summary, frozen: the effects of a function, as `ir/analysis/summaries.py` computes them;
            `ir/analysis/memory/called.py` translates them to the memory objects of a caller
Invariants  S1  a summary is complete: the function has no other effect, unless `everything` is set
            S2  it holds for calls in which pointer operands of different groups point to different
                objects

A `CalleeMemory` is memory that a caller can name: what one group of pointer parameters points to,
a global, or memory that the call allocated; `deep`: what is reachable from there through pointers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

from activerules.ir.llvm.model import Instruction
from activerules.ir.llvm.types import Type

FRESH = "memory the call made"

Groups = tuple[int | None, ...]


@dataclass(frozen=True)
class CalleeMemory:
    """`root`: the number of the first parameter of a group; the name of a global; or `FRESH`."""

    root: int | str
    deep: bool = False


@dataclass(frozen=True)
class CalleeAccess:
    """A load or store of `type`: `offset` bytes after the pointer parameter number `parameter`, or
    anywhere in `memory` (both None).

    aligned          its address is known to be a multiple of its size
    without_floats   no function of the module has floats there
    """

    memory: CalleeMemory
    type: Type
    aligned: bool = False
    parameter: int | None = None
    offset: int | None = None
    without_floats: bool = False


@dataclass(frozen=True)
class Summary:
    """The effects of a function on memory.

    stores        (a, b): a pointer to b may be stored in a
    copies        (a, b): bytes of b may be copied to a
    returns       what the pointer it returns may point to
    releases      it may free memory it did not allocate
    bits          the accesses that read the integer it returns, which may be the bits of a float
    returns_bits  the integer it returns is computed from the bits of a float
    everything    it calls a function of which nothing is known
    takes_bits    the integer parameters that it may convert to floats, as their bits
    keeps_bits    (parameter, access): the integer may be stored by this access in memory that the
                  caller can see
    makes_bits    it, or a function it calls, takes the bits of a float as an integer
    passes_data   it, or a function it calls, sends or receives data other than its arguments
    """

    reads: frozenset[CalleeMemory] = frozenset()
    writes: frozenset[CalleeMemory] = frozenset()
    stores: frozenset[tuple[CalleeMemory, CalleeMemory]] = frozenset()
    returns: frozenset[CalleeMemory] = frozenset()
    accesses: frozenset[CalleeAccess] = frozenset()
    bits: frozenset[CalleeAccess] = frozenset()
    releases: bool = False
    returns_bits: bool = False
    everything: bool = False
    takes_bits: frozenset[int] = frozenset()
    keeps_bits: frozenset[tuple[int, CalleeAccess]] = frozenset()
    copies: frozenset[tuple[CalleeMemory, CalleeMemory]] = frozenset()
    makes_bits: bool = False
    passes_data: bool = False

    def __or__(self, other: Summary) -> Summary:
        """What either may do: sets are united, and so are flags."""
        names = (field.name for field in fields(self))
        return Summary(*(getattr(self, name) | getattr(other, name) for name in names))


class Summaries(Protocol):
    """What the points-to analysis asks about functions of the module."""

    def is_derived(self, call: Instruction) -> bool:
        """Whether a call is of a function of the module that is analysed by its body: there is no
        rule for it, and no row in `normal.effects`.
        """
        ...

    def summary(self, call: Instruction, groups: Groups, apart: bool) -> Summary:
        """The effects of such a call.

        groups   per operand, the first operand that may point to the same object; None if the
                 operand is not a pointer
        apart    no two groups overlap
        """
        ...
