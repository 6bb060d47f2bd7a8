"""What is asked of the engine: a function, an activity per parameter, what is known of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from activerules.ir.analysis.memory import MemoryObject
from activerules.ir.model import Argument, Function, Module
from activerules.ir.rulecall import ActivityName, RuleCompiler
from activerules.ir.types import Type

ReturnKind = Literal["active", "const", "status"]


@dataclass(frozen=True, eq=False)
class Parameter:
    """One LLVM parameter.

    activity      "active": a float whose derivative is returned; "duplicated": a pointer that is
                  followed by a shadow pointer; in forward mode also a float that is followed by its
                  tangent
    group         parameters with the same group are parts of one argument and share memory
    private       nothing else in the call reaches its memory
    written_only  the function fills the memory; what it held before is no input (a return slot)
    floats        the memory is known to be an array of floats of this type and nothing else
    """

    argument: Argument
    activity: ActivityName
    group: object
    private: bool = False
    written_only: bool = False
    floats: Type | None = None

    @property
    def memory(self) -> MemoryObject:
        """What a pointer parameter points to."""
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
    tape_limit  bytes the tape may use before the derivative reports that memory is exhausted
    width       how many shadows or tangents each Duplicated parameter has (forward mode)
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
    tape_limit: int = (1 << 63) - 1
    width: int = 1
    display_name: str = ""
    location: str = ""

    @property
    def filled(self) -> frozenset[MemoryObject]:
        """Memory of the caller whose first contents are no input."""
        return frozenset(p.memory for p in self.parameters if p.written_only)
