"""What a compiled function does to memory that it did not make.

Needs       the LLVM function of a compiled callable, after LLVM's passes
Gives       `only_reads`: whether every write goes to memory of the call itself
Invariants  E1  if in doubt it writes: a call of anything unknown, a pointer of unknown origin

LLVM's own attributes say so of the memory behind a parameter, but not of what pointers in that
memory lead to: the items of a list, the arrays of an object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from activerules.ir.derive.derivatives import is_inactive_math, is_pure_call
from activerules.ir.runtime_calls import effect_of

_OWN_ARGUMENTS = frozenset({"retptr", "excinfo"})
_STEPS = frozenset({"getelementptr", "bitcast"})


def only_reads(function: Any) -> bool:
    """Whether a function leaves everything it is given, and all that is behind it, as it was."""
    instructions = [i for block in function.blocks for i in block.instructions]
    # An operand is known by its name alone; what has none is of unknown origin.
    by_name = {i.name: i for i in instructions if i.name}
    return all(_is_harmless(i, by_name) for i in instructions)


def _is_harmless(instruction: Any, by_name: Mapping[str, Any]) -> bool:
    match instruction.opcode:
        case "store":
            return _is_own(list(instruction.operands)[1].name, by_name)
        case "call" | "invoke":
            *arguments, callee = instruction.operands
            return _is_harmless_call(callee.name, arguments, by_name)
        case "atomicrmw" | "cmpxchg" | "va_arg":
            return False
        case _:
            return True


def _is_harmless_call(name: str, arguments: Sequence[Any], by_name: Mapping[str, Any]) -> bool:
    if is_pure_call(name) or is_inactive_math(name):
        return True
    effect = effect_of(name)
    return effect is not None and all(_is_own(arguments[k].name, by_name) for k in effect.writes)


def _is_own(name: str, by_name: Mapping[str, Any]) -> bool:
    """Whether a pointer leads to memory of the call: its result, its frame, what it allocated."""
    while name in by_name and by_name[name].opcode in _STEPS:
        name = next(iter(by_name[name].operands)).name
    origin = by_name.get(name)
    if origin is None:
        return name in _OWN_ARGUMENTS
    if origin.opcode == "call":
        effect = effect_of(list(origin.operands)[-1].name)
        return effect is not None and effect.allocates
    return origin.opcode == "alloca"
