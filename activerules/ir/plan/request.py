"""A request to the engine: a function, an activity per parameter, and what is known of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from activerules.ir.analysis.memory.declared import Declared, PointerKind, Pointers, Target
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.derivatives.rulecall import ActivityName, Options, RuleCompiler
from activerules.ir.llvm.location import Locator
from activerules.ir.llvm.model import Argument, Function, Module

ReturnKind = Literal["active", "const", "status"]


@dataclass(frozen=True)
class PassedMemory:
    """What is known of the memory that a parameter points to.

    private       nothing else in the call reaches it; a name: only memory of that name does
    written_only  the function fills it; its earlier contents are no input (a return slot)
    declared      its declared layout
    overwritten   it, and memory reachable from it, may change between the two sweeps
    copies_pointers, copies_integers
                  pointers (integers) stored there are stored in the shadow, too: the engine made
                  the shadow
    addresses     integers in it may be addresses, of memory that belongs to the argument
    """

    private: bool | str = False
    written_only: bool = False
    declared: Declared | None = None
    overwritten: bool = False
    copies_pointers: bool = False
    copies_integers: bool = False
    addresses: bool = False


@dataclass(frozen=True, eq=False)
class Parameter:
    """One LLVM parameter.

    activity  "active": a float whose derivative is returned; "duplicated": a pointer that is
              followed by a shadow pointer; in forward mode also a float that is followed by its
              tangent
    group     parameters with the same group are parts of one argument and share memory
    length    it is a number of elements: never negative
    multiple  a number that divides it, if it is an integer
    """

    argument: Argument
    activity: ActivityName
    group: object
    passed: PassedMemory = PassedMemory()
    length: bool = False
    multiple: int = 1

    @property
    def memory(self) -> MemoryObject:
        """What a pointer parameter points to."""
        return MemoryObject("argument", self.group, self.passed.private)

    @property
    def declared(self) -> Declared | None:
        """The declared layout of what it points to."""
        return self.passed.declared


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


@dataclass(frozen=True)
class Returned:
    """What the function returns.

    kind       "active": the float return value is seeded (forward: its tangent is returned);
               "status": the integer return value is 0 for success, and on any other value the
               reverse sweep does not run; "const": it carries no derivative
    shadow     the pointer it returns has a shadow
    fresh_shadow   memory that it allocates and returns has a shadow
    meminfos   byte offsets, in the memory of the result (the first parameter), of pointers to
               counted memory, which is released if the reverse sweep fails
    """

    kind: ReturnKind
    shadow: bool = False
    fresh_shadow: bool = False
    meminfos: tuple[int, ...] = ()


@dataclass(frozen=True)
class Caller:
    """What the caller of the derivative promises, and what it does with it.

    disjoint    the memory of parameters of different groups is known not to overlap
    separate    it also checks that shadows of different groups do not overlap
    checked     it checks the plan's assumptions on its arguments, and runs another version where
                they do not hold
    split       the reverse sweep runs later, perhaps several times over one tape; the caller may
                have written the memory it passed or was returned
    changing    structs that are overwritten before the reverse sweep runs, although the IR does not
                show it
    needs_primal  it reads what the function returns
    copies_entries  the tape may have copies of parts of arrays
    """

    disjoint: bool = True
    separate: bool = False
    checked: bool = False
    split: bool = False
    changing: frozenset[MemoryObject] = frozenset()
    needs_primal: bool = True
    copies_entries: bool = True


@dataclass(frozen=True)
class Callee:
    """A function that the user's function calls: its number, from 1, and per group, the groups of
    the user's function that it may stand for (ir/plan/callees.py).

    Its result is returned through memory unless it is a status.
    """

    number: int
    arguments: Mapping[object, frozenset[object]]


@dataclass(frozen=True)
class Optimiser:
    """Whether LLVM may reorder the sums of the derivative, and call vector forms of functions."""

    reassociate: bool = False
    vector_math: bool = False


@dataclass(frozen=True)
class Limits:
    """The bytes that the derivative may use, for the tape and of the machine's stack for recursion,
    before it reports that memory is exhausted.
    """

    tape: int = (1 << 63) - 1
    stack: int = 6 << 20


@dataclass(frozen=True, eq=False)
class Request:
    """The derivative to make.

    name          of the functions to generate: `<name>.gradient`, `.augmented`, `.reverse`, or
                  `<name>.forward`
    display_name  of the function, in a printed plan
    callee        None for the function a user named
    pointees      memory that pointers in the memory of parameters point to, as far as declared
    width         the number of shadows or tangents of each Duplicated parameter; in reverse mode
                  also of seeds of an Active return and of derivatives of an Active parameter
    """

    module: Module
    function: Function
    name: str
    parameters: tuple[Parameter, ...]
    returned: Returned
    rules: RuleCompiler | None = None
    pointees: tuple[Pointee, ...] = ()
    caller: Caller = Caller()
    callee: Callee | None = None
    options: Options = field(default_factory=Options)
    optimiser: Optimiser = Optimiser()
    limits: Limits = Limits()
    width: int = 1
    display_name: str = ""

    @cached_property
    def locator(self) -> Locator:
        """The locator of source lines for instructions of the module."""
        return Locator(self.module)

    def users_groups(self, group: object) -> frozenset[object]:
        """The groups of parameters of the user's function that one of this function stands for."""
        if self.callee is None:
            return frozenset({group})
        return self.callee.arguments.get(group, frozenset())

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
        own = frozenset(p.memory for p in self.parameters if p.passed.copies_pointers)
        return own if self.callee else self.filled

    @property
    def copied_integers(self) -> frozenset[MemoryObject]:
        """Memory of the caller whose shadow gets copies of integers that are stored there."""
        own = frozenset(p.memory for p in self.parameters if p.passed.copies_integers)
        return own if self.callee else self.filled

    @property
    def filled(self) -> frozenset[MemoryObject]:
        """Memory of the caller whose initial contents are no input."""
        return frozenset(p.memory for p in self.parameters if p.passed.written_only)
