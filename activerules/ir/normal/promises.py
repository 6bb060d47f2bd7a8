"""What LLVM promises of a function that has no row: that it touches no memory.

Needs       a parsed module
Gives       calls of such functions with the attribute NO_MEMORY, in place
Invariants  P1  a call has it only if its declaration, or the call itself, says `memory(none)`

LLVM writes the promise into a group of attributes at the end of the module; the analyses look at a
call alone.
"""

from __future__ import annotations

from functools import cache

from activerules.ir.llvm.model import Instruction, Module
from activerules.ir.llvm.verbatim import attribute_groups, promises_no_memory, spelt_out

NO_MEMORY = "no_memory"


def keep_promises(module: Module) -> None:
    """Mark the calls of functions that touch no memory with NO_MEMORY (P1), in place."""
    groups = attribute_groups(module)

    @cache
    def promised(attributes: str) -> bool:
        return promises_no_memory(spelt_out(attributes, groups))

    functions = {f.name for f in module.functions.values() if promised(f.suffix)}
    for function in module.defined():
        for i in function.instructions():
            own = str(i.attributes.get("call_attributes", ""))
            if i.opcode == "call" and (i.callee_name in functions or promised(own)):
                i.attributes[NO_MEMORY] = True


def touches_memory(call: Instruction) -> bool:
    """False where a call neither reads nor writes memory, whatever it is given."""
    return NO_MEMORY not in call.attributes
