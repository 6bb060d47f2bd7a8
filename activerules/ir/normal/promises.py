"""Functions without a row in `effects` that access no memory, as LLVM's attributes say.

Needs       a parsed module
Gives       calls of such functions with the attribute NO_MEMORY, in place
Invariants  P1  a call has it only if its declaration, or the call itself, says `memory(none)`

LLVM writes this attribute into a group at the end of the module; the analyses look only at calls.
"""

from __future__ import annotations

from functools import cache

from activerules.ir.llvm.model import Instruction, Module
from activerules.ir.llvm.verbatim import attribute_groups, promises_no_memory, spelt_out

NO_MEMORY = "no_memory"


def keep_promises(module: Module) -> None:
    """Mark the calls of functions that access no memory with NO_MEMORY (P1), in place."""
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
    """Whether a call may read or write memory."""
    return NO_MEMORY not in call.attributes
