"""A request to the engine: a function, an activity per parameter, and what is known of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from activerules.ir.analysis.memory.declared import Declared, PointerKind, Pointers, Target
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.derivatives.rulecall import ActivityName, RuleCompiler
from activerules.ir.llvm.location import Locator
from activerules.ir.llvm.model import Argument, Function, Module

ReturnKind = Literal["active", "const", "status"]


@dataclass(frozen=True, eq=False)
class Parameter:
    """One LLVM parameter.

    activity      "active": a float whose derivative is returned; "duplicated": a pointer that is
                  followed by a shadow pointer; in forward mode also a float that is followed by its
                  tangent
    group         parameters with the same group are parts of one argument and share memory
    private       nothing else in the call reaches its memory; a name: only memory of that name does
    written_only  the function fills the memory; its earlier contents are no input (a return slot)
    declared      the declared layout of the memory it points to
    overwritten   the memory, and memory reachable from it, may change between the two sweeps
    copies_pointers, copies_integers
                  pointers (integers) stored there are stored in the shadow, too: the engine made
                  the shadow
    length        it is a number of elements: never negative
    multiple      a number that divides it, if it is an integer
    addresses     integers in its memory may be addresses, of memory that belongs to the argument
    """

    argument: Argument
    activity: ActivityName
    group: object
    private: bool | str = False
    written_only: bool = False
    declared: Declared | None = None
    overwritten: bool = False
    copies_pointers: bool = False
    copies_integers: bool = False
    length: bool = False
    multiple: int = 1
    addresses: bool = False

    @property
    def memory(self) -> MemoryObject:
        """What a pointer parameter points to."""
        return MemoryObject("argument", self.group, self.private)


@dataclass(frozen=True)
class Pointee:
    """Memory that the caller declares: the target of pointers in the memory `holder`.

    pointers  their offsets in the holder, and what each points to (`declared.Target`)
    activity  "duplicated": the shadow of the holder points to its shadow at the same offsets
    group     identifies it, as that of a parameter does
    declared  its declared layout
    """

    holder: MemoryObject
    pointers: tuple[tuple[int, PointerKind], ...]
    activity: ActivityName
    group: object
    private: bool | str = False
    declared: Declared | None = None

    @property
    def memory(self) -> MemoryObject:
        """Its memory object in the analyses, like that of a parameter."""
        return MemoryObject("argument", self.group, self.private)


@dataclass(frozen=True, eq=False)
class Request:
    """The derivative to make.

    name        of the functions to generate: `<name>.gradient`, `.augmented`, `.reverse`, or
                `<name>.forward`
    returns     "active": the float return value is seeded (forward: its tangent is returned);
                "status": the integer return value is 0 for success, and on any other value the
                reverse sweep does not run; "const": it carries no derivative
    disjoint    the memory of parameters of different groups is known not to overlap
    separate    the caller also checks that shadows of different groups do not overlap
    split       the reverse sweep runs later, perhaps several times over one tape; the caller may
                have written the memory it passed or was returned
    callee      0 for the function a user named; else the number of a function it calls
                (ir/plan/callees.py); its result is returned through memory unless it is a status
    fresh_shadow   memory that it allocates and returns has a shadow
    result_shadow  the pointer it returns has a shadow
    changing    structs that are overwritten before the reverse sweep runs, although the IR does not
                show it
    pointees    memory that pointers in the memory of parameters point to, as far as declared
    arguments   of a callee: per group, the groups of the user's function that it may stand for
    checked     the caller checks the plan's assumptions on its arguments, and runs another version
                where they do not hold
    needs_primal  the caller reads what the function returns
    strong_zero  a zero cotangent times any slope, infinite and NaN included, is zero
    runtime_activity  the option of that name, passed on to rules; the engine does not use it
    reassociate, vector_math  LLVM may reorder the sums of the derivative, and may call vector forms
                of functions
    tape_limit  bytes the tape may use before the derivative reports that memory is exhausted
    stack_limit bytes of the machine's stack that recursion may use before it reports the same
    result_meminfos  byte offsets, in the memory of the result (the first parameter), of pointers to
                counted memory, which is released if the reverse sweep fails
    width       the number of shadows or tangents of each Duplicated parameter; in reverse mode also
                of seeds of an Active return and of derivatives of an Active parameter
    """

    module: Module
    function: Function
    name: str
    parameters: tuple[Parameter, ...]
    returns: ReturnKind
    rules: RuleCompiler | None = None
    disjoint: bool = True
    separate: bool = False
    split: bool = False
    checked: bool = False
    needs_primal: bool = True
    strong_zero: bool = False
    runtime_activity: bool = False
    reassociate: bool = False
    vector_math: bool = False
    tape_limit: int = (1 << 63) - 1
    stack_limit: int = 6 << 20
    width: int = 1
    display_name: str = ""
    location: str = ""
    callee: int = 0
    fresh_shadow: bool = False
    result_shadow: bool = False
    result_meminfos: tuple[int, ...] = ()
    changing: frozenset[MemoryObject] = frozenset()
    pointees: tuple[Pointee, ...] = ()
    arguments: Mapping[object, frozenset[object]] = field(default_factory=lambda: {})

    @cached_property
    def locator(self) -> Locator:
        """The locator of source lines for instructions of the module."""
        return Locator(self.module)

    @property
    def targets(self) -> dict[MemoryObject, Pointers]:
        """The declared pointers of each memory object; a single struct has an entry even if it has
        none.
        """
        by_memory: dict[MemoryObject, dict[int, Target]] = {}
        known: dict[MemoryObject, Declared] = {}
        for p in (*self.parameters, *self.pointees):
            if p.declared is not None:
                known[p.memory] = p.declared
                if p.declared.period == 0:
                    by_memory.setdefault(p.memory, {})
        for p in self.pointees:
            fields = by_memory.setdefault(p.holder, {})
            for offset, kind in p.pointers:
                fields[offset] = Target(p.memory, kind, p.declared.period if p.declared else 0)
        return {
            memory: Pointers(at, declared.period, declared.integers)
            for memory, at in by_memory.items()
            for declared in [known.get(memory, Declared())]
        }

    @property
    def mirrored(self) -> frozenset[MemoryObject]:
        """Memory of the caller whose shadow gets the shadows of pointers that are stored there."""
        own = frozenset(p.memory for p in self.parameters if p.copies_pointers)
        return own if self.callee else self.filled

    @property
    def copied_integers(self) -> frozenset[MemoryObject]:
        """Memory of the caller whose shadow gets copies of integers that are stored there."""
        own = frozenset(p.memory for p in self.parameters if p.copies_integers)
        return own if self.callee else self.filled

    @property
    def filled(self) -> frozenset[MemoryObject]:
        """Memory of the caller whose initial contents are no input."""
        return frozenset(p.memory for p in self.parameters if p.written_only)
