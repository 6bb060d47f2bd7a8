"""What a call of a function of the module does to memory, in terms of the call's operands.

Gives       Summary, frozen: the records `ir/analysis/summaries.py` computes for a function, and
            CalledMemory, the same at one call, in terms of the caller's memory objects
Invariants  S1  a summary leaves nothing out: what is not in it the function does not do, unless
                `everything` is set
            S2  it holds for calls in which pointer operands of different groups lead to different
                objects

A `CalleeMemory` is memory a caller can name: what the pointers of one group of parameters point to,
a global, or memory the call made; `deep`: what is behind pointers stored in it, however far.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """A load or store of `type`: `offset` bytes behind parameter `parameter`, or anywhere in
    `memory` (both None); `aligned`: for sure at an address that its size divides; `without_floats`:
    no function of the module has floats there.
    """

    memory: CalleeMemory
    type: Type
    aligned: bool = False
    parameter: int | None = None
    offset: int | None = None
    without_floats: bool = False


@dataclass(frozen=True)
class Summary:
    """A function's effects.

    stores        (a, b): a pointer to b may be left in a
    copies        (a, b): bytes of b may be copied to a
    returns       what a pointer it returns may point to
    releases      it may free memory it did not make
    bits          from where an integer it returns is read: it may be the bits of a float
    returns_bits  an integer it returns is made of the bits of a float
    everything    it calls what nothing is known of
    takes_bits    the parameters that are integers and may be used as the bits of a float: it makes
                  a float of them
    keeps_bits    (parameter, access): an integer may be stored so where the caller can see it
    makes_bits    it, or a function it calls, takes the bits of a float as an integer
    passes_data   it, or a function it calls, sends or receives data beside the arguments
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
        return Summary(
            self.reads | other.reads,
            self.writes | other.writes,
            self.stores | other.stores,
            self.returns | other.returns,
            self.accesses | other.accesses,
            self.bits | other.bits,
            self.releases or other.releases,
            self.returns_bits or other.returns_bits,
            self.everything or other.everything,
            self.takes_bits | other.takes_bits,
            self.keeps_bits | other.keeps_bits,
            self.copies | other.copies,
            self.makes_bits or other.makes_bits,
            self.passes_data or other.passes_data,
        )


class Summaries(Protocol):
    """Who knows the functions of the module."""

    def is_derived(self, call: Instruction) -> bool:
        """Whether a call is of a function whose body is at hand, and that nothing else stands
        for: no rule, no row of `normal.effects`.
        """
        ...

    def summary(self, call: Instruction, groups: Groups, apart: bool) -> Summary:
        """The effects of such a call. `groups`: per operand the first operand that may point to
        the same object; None for one that is no pointer. `apart`: no two groups overlap.
        """
        ...
