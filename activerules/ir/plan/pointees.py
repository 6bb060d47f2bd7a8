"""Whether the function leaves declared pointers unchanged (D2 of `ir/analysis/memory/declared.py`).

Needs       the MemoryFacts of a function, computed under the assumption that they are unchanged
Gives       `changes_pointers`: an instruction that may change such a pointer; `without_pointees`:
            the request for such a function, without declared pointers, or the refusal, which names
            the groups of the memory that holds them
"""

from __future__ import annotations

from dataclasses import replace

from activerules.errors import NotYetSupported
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject, root
from activerules.ir.analysis.memory.writes import Write
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.plan.request import Request


def changes_pointers(memory: MemoryFacts) -> Instruction | None:
    """An instruction that may overwrite a declared pointer; None if there is none."""
    holders = [holder for holder, pointers in memory.caller.targets.items() if pointers.at]
    for write in memory.writes if holders else ():
        if any(_hits(write, holder, memory) for holder in holders):
            return write.instruction
    return None


def _changed_groups(memory: MemoryFacts) -> tuple[object, ...]:
    """The groups of the memory in which declared pointers may be changed; where undeclared memory
    may be that memory, the groups of the arguments that lead to it.
    """
    holders = [holder for holder, pointers in memory.caller.targets.items() if pointers.at]
    hits = [(w, holder) for w in memory.writes for holder in holders if _hits(w, holder, memory)]
    undeclared = [root(o) for w, _ in hits for o in memory.written_by(w) if o.kind == "loaded"]
    changed = (*(holder for _, holder in hits), *(o for o in undeclared if o.kind == "argument"))
    return tuple(dict.fromkeys(o.key for o in changed))


def _hits(write: Write, holder: MemoryObject, memory: MemoryFacts) -> bool:
    if write.everything:
        reached = memory.reached(write.instruction) if write.instruction.opcode == "call" else ()
        return holder in reached
    if not write.replaces_pointers:
        return False
    if any(memory.may_overlap(holder, o) for o in write.objects):
        return True
    return any(
        any(memory.may_overlap(holder, o) for o in memory.objects(pointer))
        and not _misses_pointers(pointer, write.size, holder, memory)
        for pointer in write.pointers
    )


def _misses_pointers(
    pointer: Value, size: int | None, holder: MemoryObject, memory: MemoryFacts
) -> bool:
    """Whether a write certainly misses the declared pointers in the memory it writes to."""
    address = memory.address(pointer)
    if size is None or not memory.starts(address, holder):
        return False
    return not memory.caller.targets[holder].meets(address, size)


def without_pointees(request: Request, memory: MemoryFacts, changed: Instruction) -> Request:
    """The request without its declared pointers. Refused if one of them points to active memory."""
    if any(p.activity == "duplicated" for p in request.pointees):
        error = refusal(
            changed,
            "an array or object in a Duplicated argument is replaced or removed, or a list or "
            "dictionary grows",
            "its shadow would have to be replaced in the caller's shadow as well",
            [
                "write into the array: a.field[:] = x",
                "make the object, or a copy of the list or dictionary, inside the function",
            ],
            NotYetSupported,
        )
        error.groups = _changed_groups(memory)
        raise error
    return replace(request, pointees=())
