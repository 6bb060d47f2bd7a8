"""The error about dictionaries to which functions that are not inlined add keys.

Needs       a refusal of memory that may be active or not, and the memory of the function it is of
Gives       `explained`: the refusal, in words about the dictionary where it is about one

In a function that is passed on, as one that calls itself, all that a dictionary leads to counts as
one piece of memory: the numbers in it, its keys, and what its errors are made of. Floats that are
stored there would be active beside memory that has no shadow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from activerules.errors import ActiverulesError, NotYetSupported
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import closure
from activerules.ir.llvm.model import Argument, Instruction, Module
from activerules.ir.llvm.refusal import refusal
from activerules.ir.normal.effects import effect_of

_PARAMETER = re.compile(r"arg\.(\w+)\.\d+")


def explained(error: ActiverulesError, memory: MemoryFacts, module: Module) -> ActiverulesError:
    """The error to raise in place of one about memory that may have a shadow or not."""
    i = error.instruction
    if error.groups or not isinstance(i, Instruction):
        return error  # it is about Const arguments alone, or about no instruction
    names = sorted({name for call in memory.called for name in _written(i, call, memory, module)})
    if not names:
        return error
    return refusal(
        i,
        "a function that is not inlined, as one that calls itself, adds keys to a dictionary of "
        f"active values ({', '.join(f'`{name}`' for name in names)})",
        "there, all that a dictionary leads to counts as one piece of memory: its values, which "
        "have a shadow, and its keys, which have none",
        [
            "keep the values in an array that is found by number, table[n], with an array of "
            "integers for what is known, known[n] = 1",
            "a loop from the small cases to the large ones, which fills such an array",
        ],
        NotYetSupported,
    )


def _written(
    i: Instruction, call: Instruction, memory: MemoryFacts, module: Module
) -> Iterator[str]:
    """The dictionaries, by the names of parameters, that a called function adds keys to, and that
    an instruction is about.
    """
    function = module.functions.get(call.callee_name or "")
    for inner in (x for block in (function.blocks if function else ()) for x in block.instructions):
        effect = effect_of(inner.callee_name)
        holder = inner.operands[0] if effect is not None and effect.adds_keys else None
        if function is None or not isinstance(holder, Argument):
            continue
        name = _PARAMETER.match(holder.name)
        given = call.operands[function.arguments.index(holder)]
        reachable = closure(memory.objects(given), memory.pointees)
        if name and (i is call or not reachable.isdisjoint(memory.objects(i.operands[-1]))):
            yield name[1]
