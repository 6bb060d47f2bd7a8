"""Arrays for which the reverse sweep knows which of their floats the program used.

Needs       Facts; the memory that outlives the call (`tape_arrays.escaped`)
Gives       `tracked_accesses`: the loads and stores of allocations whose shadows tell it, by the
            sign of a zero
            `updates_in_place`: those of them in pairs that leave the shadow as it is
Invariants  K1  every access to such memory is a load or store of a float, a copy of floats, or a
                memset: the reverse of no other code sees its shadow
            K2  in the reverse sweep, +0.0 there means that no instruction reversed so far used the
                float, and -0.0 that it was used but its cotangent is zero. A load that may also
                access other memory may leave a -0.0 in that, where it has no meaning
            K3  between the load and the store of a pair, nothing writes memory of theirs

In `np.where(x > 0, np.log(x), 0.)` the logarithms are in an array. Those that are not chosen have
the cotangent 0, and so have those that are multiplied by 0; but only for the latter does an
infinite slope matter. Tracking costs an additional comparison per cotangent, so only arrays that
hold results of functions with infinite slopes are tracked. A quotient has none where Python has
checked that the divisor is not zero. A product has one where data are missing: arrays of products
are tracked in functions that ask which numbers are NaN, as `np.nansum((y - f) ** 2)` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import isinf

from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.types.copies import MixedCopy, copied_scalars
from activerules.ir.derivatives.slopes import STEEP_FUNCTIONS
from activerules.ir.derivatives.table import function_of, is_pure_call
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.constants import number_of
from activerules.ir.llvm.model import Block, Constant, Instruction, Value, backward_slice
from activerules.ir.llvm.types import DOUBLE, FLOAT
from activerules.ir.normal.effects import COPY_RESIZED, effect_of, memory_intrinsic
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.tape_arrays import is_plain

Objects = frozenset[MemoryObject]
_FLOATS = (DOUBLE, FLOAT)


def tracked_accesses(facts: Facts, escaped: Objects) -> frozenset[Instruction]:
    """The stores that write only tracked memory, and the loads that may read it."""
    tracked = _tracked_memory(facts, escaped)
    accesses = (i for i in _all_instructions(facts) if tracked and i.opcode in {"load", "store"})
    return frozenset(i for i in accesses if _is_tracked(i, tracked, facts.memory))


def updates_in_place(tracked: frozenset[Instruction], facts: Facts) -> frozenset[Instruction]:
    """The loads and stores that add to tracked floats: `a[k] += x`, `a[k] -= x`.

    The cotangent of the new value is that of the old one, used or not.
    """
    pairs: set[Instruction] = set()
    for store in tracked:
        load = _updated_by(store, facts.flow) if store.opcode == "store" else None
        if load in tracked and not _is_written_between(load, store, facts.memory):
            pairs |= {load, store}
    return frozenset(pairs)


def _updated_by(store: Instruction, flow: ControlFlow) -> Instruction | None:
    """The load of the float to which a store adds, if that is all it is used for."""
    total, pointer = store.operands
    if not isinstance(total, Instruction) or flow.users[total] != [store]:
        return None
    terms = {"fadd": total.operands, "fsub": total.operands[:1]}.get(total.opcode, [])
    for old in terms:
        if (
            isinstance(old, Instruction)
            and old.opcode == "load"
            and old.operands[0] is pointer
            and old.owner is store.owner
            and flow.users[old] == [total]
            and total.operands.count(old) == 1
        ):
            return old
    return None


def _is_written_between(load: Instruction, store: Instruction, memory: MemoryFacts) -> bool:
    inside = load.owner.instructions
    between = inside[inside.index(load) + 1 : inside.index(store)]
    changed = memory.objects(load.operands[0])
    return any(
        not memory.objects(i.operands[1]).isdisjoint(changed)
        if i.opcode == "store"
        else i.opcode == "call" and not is_pure_call(i.callee_name or "")
        for i in between
    )


def _tracked_memory(facts: Facts, escaped: Objects) -> Objects:
    """The allocations that are tracked: those with results of steep functions."""
    copies = {i: objects for i in _all_instructions(facts) if (objects := _copied(i, facts))}
    steep = _steep_memory(facts, copies.values())
    if not steep:
        return frozenset()
    hidden = set(escaped)
    for i in _all_instructions(facts):
        if i not in copies:
            hidden.update(*_hidden_by(i, facts))
    tracked = {o for o in steep if o not in hidden and _is_array(o)}
    count = None
    while count != len(tracked):  # what is copied to other memory is read there
        count = len(tracked)
        for target, source in copies.values():
            if not target <= tracked:
                tracked -= source
    return frozenset(tracked)


def _copied(i: Instruction, facts: Facts) -> tuple[Objects, Objects] | None:
    """The memory to which and from which floats are copied; None for other instructions, and for
    copies of anything else.
    """
    if memory_intrinsic(i) not in {"memcpy", "memmove"} or i.callee_name == COPY_RESIZED:
        return None
    try:
        moved = copied_scalars(i, facts.types)
    except MixedCopy:
        return None
    floats = all(s.type.is_float for s in moved) if isinstance(moved, list) else moved in _FLOATS
    target, source = (facts.memory.objects(o) for o in i.operands[:2])
    return (target, source) if floats else None


def _is_tracked(access: Instruction, tracked: Objects, memory: MemoryFacts) -> bool:
    objects = memory.objects(access.operands[-1])
    if access.opcode == "load":
        return not objects.isdisjoint(tracked)
    return bool(objects) and objects <= tracked


def _all_instructions(facts: Facts) -> Iterator[Instruction]:
    """The instructions of error paths too: what they do to memory counts (K1)."""
    return facts.request.function.instructions()


def _is_array(o: MemoryObject) -> bool:
    return o.kind == "allocation" and isinstance(o.key, Instruction) and is_plain(o.key)


def _hidden_by(i: Instruction, facts: Facts) -> Iterator[Objects]:
    """Memory that an instruction accesses, or of which it passes on a pointer, other than by a load
    or store of floats or a memset.
    """
    if i.opcode == "load" and not i.type.is_float:
        yield facts.memory.objects(i.operands[0])
    elif i.opcode == "store":
        value, pointer = i.operands
        if not value.type.is_float:
            yield facts.memory.objects(pointer)
        if value.type.is_pointer:
            yield facts.memory.objects(value)
    elif i.opcode == "call" and memory_intrinsic(i) != "memset":
        effect = effect_of(i.callee_name)
        if effect is None or effect.reads or effect.writes or effect.keeps:
            yield from (facts.memory.objects(o) for o in i.operands if o.type.is_pointer)


def _steep_memory(facts: Facts, copies: Collection[tuple[Objects, Objects]]) -> Objects:
    """Memory with active floats that depend on functions whose slope may be infinite; in a function
    that asks which numbers are NaN, on products, too.
    """
    steep: set[MemoryObject] = set()
    asks = any(_asks_for_nan(i) for i in _all_instructions(facts))
    stores = [
        i for i in _all_instructions(facts) if i.opcode == "store" and i.operands[0].type.is_float
    ]
    count = None
    while stores and count != len(steep):
        count = len(steep)
        for target, source in copies:
            if not steep.isdisjoint(source):
                steep |= target
        for value, pointer in (i.operands for i in stores):
            if not facts.memory.objects(pointer) <= steep and _is_steep(value, steep, facts, asks):
                steep |= facts.memory.objects(pointer)
    return frozenset(steep)


def _is_steep(value: Value, memory: set[MemoryObject], facts: Facts, asks: bool) -> bool:
    is_active = facts.activity.is_active

    def begins(i: Instruction) -> bool:
        match i.opcode:
            case "load":
                return not memory.isdisjoint(facts.memory.objects(i.operands[0]))
            case "fmul" | "fdiv" | "call" if asks:
                return not any(isinstance(o, Constant) for o in i.operands)
            case "fdiv":
                return is_active(i.operands[1]) and not _is_checked(i, facts)
            case _:
                return i.opcode == "call" and function_of(i.callee_name or "") in STEEP_FUNCTIONS

    computing = backward_slice(value, lambda i: is_active(i) and i.opcode != "load")
    return any(is_active(i) and begins(i) for i in computing)


def _asks_for_nan(i: Instruction) -> bool:
    """Whether an instruction is `isnan(x)`, `isfinite(x)` or the opposite."""
    if i.opcode != "fcmp":
        return False
    x, y = i.operands
    if x is y or (i.attributes["predicate"] in {"uno", "ord"} and isinstance(y, Constant)):
        return True
    number = number_of(y)
    return number is not None and isinf(number)


def _is_checked(division: Instruction, facts: Facts) -> bool:
    """Whether the function fails where the divisor is zero, before it divides, as Python does."""
    block = facts.flow.idom[division.owner]
    while block is not None:
        taken = _where_zero(block, division.operands[1])
        if taken is not None and not _succeeds(block, taken, facts.returns):
            return True
        block = facts.flow.idom[block]
    return False


def _succeeds(block: Block, target: Block, returns: Returns) -> bool:
    """Whether the function may return a result after a block went on to a target."""
    return target in returns.live and block in returns.predecessors[target]


def _where_zero(block: Block, value: Value) -> Block | None:
    """Where control goes from the end of a block if a value is zero; None if it does not say."""
    branch = block.terminator
    if branch.opcode != "br" or len(branch.blocks) != 2:
        return None
    test = branch.operands[0]
    if not isinstance(test, Instruction) or test.opcode != "fcmp":
        return None
    if test.operands[0] is not value or number_of(test.operands[1]) != 0.0:
        return None
    predicate = test.attributes["predicate"]
    if predicate in {"oeq", "ueq"}:
        return branch.blocks[0]
    return branch.blocks[1] if predicate in {"une", "one"} else None
