"""The error about dictionaries to which functions that are not inlined add keys.

Needs       a refusal of memory that may have a shadow or not, and the memory of the function
Gives       `explained`: the same refusal, in terms of a dictionary where it is about one

In a function that is not inlined, such as a recursive one, all memory reachable from a dictionary
counts as one region: its numbers, its keys, and the objects of its error messages. Active floats
stored there would share a region with memory that has no shadow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from activerules.errors import ActiverulesError, NotYetSupported
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Argument, Instruction, Module
from activerules.ir.llvm.refusal import refusal
from activerules.ir.normal.effects import effect_of

_PARAMETER = re.compile(r"arg\.(\w+)\.\d+")


def explained(error: ActiverulesError, memory: MemoryFacts, module: Module) -> ActiverulesError:
    """`error`, which is about memory with or without a shadow, in terms of the dictionary."""
    i = error.instruction
    if error.groups or not isinstance(i, Instruction):
        return error  # it concerns only Const arguments, or has no instruction
    names = sorted(
        {
            name
            for call in memory.called
            for name in _dictionaries_with_new_keys(i, call, memory, module)
        }
    )
    if not names:
        return error
    return refusal(
        i,
        "a function that is not inlined, as one that calls itself, adds keys to a dictionary of "
        f"active values ({', '.join(f'`{name}`' for name in names)})",
        "there, all that a dictionary leads to counts as one block of memory: its values, which "
        "have a shadow, and its keys, which have none",
        [
            "keep the values in an array that is found by number, table[n], with an array of "
            "integers for what is known, known[n] = 1",
            "a loop from the small cases to the large ones, which fills such an array",
        ],
        NotYetSupported,
    )


def _dictionaries_with_new_keys(
    i: Instruction, call: Instruction, memory: MemoryFacts, module: Module
) -> Iterator[str]:
    """The names of the parameters of a callee that are dictionaries to which it adds keys, and
    which the instruction concerns.
    """
    function = module.functions.get(call.callee_name or "")
    for inner in (x for block in (function.blocks if function else ()) for x in block.instructions):
        effect = effect_of(inner.callee_name)
        holder = inner.operands[0] if effect is not None and effect.adds_keys else None
        if function is None or not isinstance(holder, Argument):
            continue
        name = _PARAMETER.match(holder.name)
        operand = call.operands[function.arguments.index(holder)]
        reachable = closure(memory.objects(operand), memory.pointees)
        if name and (i is call or not reachable.isdisjoint(memory.objects(i.operands[-1]))):
            yield name[1]
