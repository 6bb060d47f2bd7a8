"""Shadow pointers and shadow memory, made by the same address arithmetic and the same allocations.

Both modes use this. `value` and `shadow` map a value of the primal to its copy, or its shadow, in
the function under construction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from activerules.ir.generate.sweep import clear
from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import PTR
from activerules.ir.normal.effects import GROW_SHADOW, allocation, counted_memory, effect_of

ValueOf = Callable[[Value], Value]

_DROPPED = (
    "llvm.lifetime.",
    "llvm.dbg.",
    "llvm.assume",
    "llvm.experimental.noalias.scope.decl",
    "llvm.invariant.",
)


def is_dropped(call: Instruction) -> bool:
    """Whether a call only informs a debugger, or LLVM about the memory of the primal."""
    name = call.callee_name or ""
    return name.startswith(_DROPPED) or any(str(o.type) == "metadata" for o in call.operands)


def derived_shadow(
    b: Builder, i: Instruction, value: ValueOf, shadow: ValueOf, metadata: str | None
) -> Value | None:
    """The shadow of a pointer that an instruction computes from others, or loads.

    None for other instructions (phi, alloca, an allocation).
    """
    match i.opcode:
        case "getelementptr":
            base, *indices = i.operands
            flags = i.flags
            return b.gep(i.attributes["source"], shadow(base), [*map(value, indices)], flags)
        case "select":
            condition, x, y = i.operands
            return b.select(value(condition), shadow(x), shadow(y))
        case "load":
            return b.load(PTR, shadow(i.operands[0]), metadata=metadata)
        case "freeze" | "bitcast" | "addrspacecast":
            return shadow(i.operands[0])
        case "call":
            effect = effect_of(i.callee_name)
            if effect is None or effect.returns is None:
                return None
            operands = [
                shadow(o) if k == effect.returns else value(o) for k, o in enumerate(i.operands)
            ]
            if effect.resizes is not None:
                return b.call(GROW_SHADOW, PTR, [operands[0], operands[effect.resizes]])
            return b.call(i.callee_name or "", PTR, operands)
        case _:
            return None


def allocated_shadow(
    b: Builder, i: Instruction, operands: Sequence[Value], *, plain: bool
) -> Value:
    """A second allocation like that of `i`; it may have failed, and is not yet cleared.

    plain   without destructor: the tape owns the shadows that it refers to, or it refers to none
    """
    made = allocation(i)
    assert made is not None
    if made.plain is None or not plain:
        return b.call(i.callee_name or "", PTR, operands)
    return b.call(made.plain, PTR, [operands[k] for k in made.size])


def clear_allocated(b: Builder, i: Instruction, shadow: Value, operands: Sequence[Value]) -> None:
    """Set the memory of an allocation made by `allocated_shadow` to zero."""
    made = allocation(i)
    assert made is not None
    data = b.call(counted_memory().data, PTR, [shadow]) if made.counted else shadow
    size = reduce(lambda x, y: b.binary("mul", x, y), (operands[k] for k in made.size))
    clear(b, data, size)
