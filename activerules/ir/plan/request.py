"""What is asked of the engine: a function, an activity per parameter, what is known of memory."""

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
    private       nothing else in the call reaches its memory; a name: nothing but what has it, too
    written_only  the function fills the memory; what it held before is no input (a return slot)
    declared      what is known of the memory it points to
    overwritten   the memory, and what is behind pointers in it, may change between the two sweeps
    copies_pointers, copies_integers
                  what the function stores there it stores in the shadow, too: the shadow is of the
                  engine's making
    length        a number of elements: never negative
    multiple      a number that divides it, if it is an integer
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

    @property
    def memory(self) -> MemoryObject:
        """What a pointer parameter points to."""
        return MemoryObject("argument", self.group, self.private)


@dataclass(frozen=True)
class Pointee:
    """Memory the caller declares: what pointers in the memory `holder` lead to.

    pointers  where in it they are, and how each leads there
    activity  "duplicated": the shadow of the holder has pointers to its shadow in the same places
    group     identifies it, as that of a parameter does
    declared  what is known of it
    """

    holder: MemoryObject
    pointers: tuple[tuple[int, PointerKind], ...]
    activity: ActivityName
    group: object
    private: bool | str = False
    declared: Declared | None = None

    @property
    def memory(self) -> MemoryObject:
        """The memory object it is to the analyses: as that of a parameter."""
        return MemoryObject("argument", self.group, self.private)


@dataclass(frozen=True, eq=False)
class Request:
    """A derivative to make.

    name        of the functions to generate: `<name>.gradient`, `.augmented`, `.reverse`, or
                `<name>.forward`
    returns     "active": the float return value is seeded (forward: its tangent is returned);
                "status": the integer return value is 0 for success, and on any other value the
                reverse sweep does not run; "const": it carries no derivative
    disjoint    the memory of parameters of different groups is known not to overlap
    separate    the caller also checks that shadows of different groups do not overlap
    split       the reverse sweep runs later, perhaps several times over one tape, when the caller
                may have written the memory it passed or was handed
    callee      0 for the function a user named; else the number of a function it calls
                (ir/plan/callees.py); its result is handed back through memory unless it is a status
    fresh_shadow   memory it makes and hands out has a shadow
    result_shadow  the pointer it returns has a shadow
    changing    structs that the function has written over behind the engine's back when the reverse
                sweep runs
    pointees    memory behind pointers in the memory of parameters, as far as it is declared
    arguments   of a callee: the groups of the user's function that its groups may stand for
    checked     the caller checks the plan's assumptions on its arguments, and runs another version
                where they do not hold
    needs_primal  the caller reads what the function returns
    strong_zero  a zero cotangent gives zero, against infinite and undefined slopes too
    runtime_activity  what rules are told of the option of that name; here it changes nothing
    tape_limit  bytes the tape may use before the derivative reports that memory is exhausted
    stack_limit bytes of the machine's stack that recursion may use before it reports the same
    result_meminfos  byte offsets in the memory of the result, which is the first parameter, of
                pointers to counted memory: of a primal whose reverse sweep fails nobody gets it
    width       how many shadows or tangents each Duplicated parameter has; in reverse mode also how
                many seeds an Active return and derivatives an Active parameter
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
        """Finds the source lines of instructions."""
        return Locator(self.module)

    @property
    def targets(self) -> dict[MemoryObject, Pointers]:
        """What the declared pointers lead to; an entry for memory that is one struct, too."""
        found: dict[MemoryObject, dict[int, Target]] = {}
        known: dict[MemoryObject, Declared] = {}
        for p in (*self.parameters, *self.pointees):
            if p.declared is not None:
                known[p.memory] = p.declared
                if p.declared.period == 0:
                    found.setdefault(p.memory, {})
        for p in self.pointees:
            fields = found.setdefault(p.holder, {})
            for offset, kind in p.pointers:
                fields[offset] = Target(p.memory, kind)
        return {
            memory: Pointers(at, declared.period, declared.integers)
            for memory, at in found.items()
            for declared in [known.get(memory, Declared())]
        }

    @property
    def mirrored(self) -> frozenset[MemoryObject]:
        """Memory of the caller in whose shadow pointers are kept as in the primal."""
        own = frozenset(p.memory for p in self.parameters if p.copies_pointers)
        return own if self.callee else self.filled

    @property
    def copied_integers(self) -> frozenset[MemoryObject]:
        """Memory of the caller in whose shadow integers are kept as in the primal."""
        own = frozenset(p.memory for p in self.parameters if p.copies_integers)
        return own if self.callee else self.filled

    @property
    def filled(self) -> frozenset[MemoryObject]:
        """Memory of the caller whose first contents are no input."""
        return frozenset(p.memory for p in self.parameters if p.written_only)
