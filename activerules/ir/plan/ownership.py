"""Ownership: which memory the tape owns, and what becomes of calls that count references or free.

Needs       Facts; the cache plan, the calls with rules and with derivatives of their own; memory
            that outlives the call (`escaped`)
Gives       `retained_memory`, which the reverse sweep reads; Ownership, frozen; `refuse_leaving`
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from activerules.errors import MixedActivity
from activerules.ir.analysis.cache import CachePlan
from activerules.ir.analysis.memory.objects import MemoryObject, is_counted
from activerules.ir.analysis.nodes import Entries, Node, Primal, Shadow
from activerules.ir.llvm.model import Argument, Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.normal.effects import effect_of
from activerules.ir.plan.dictionaries import explained
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.marked import RuleUse
from activerules.ir.plan.tape_arrays import arrays_in_rows, is_plain

MADE = frozenset({"allocation", "result"})


@dataclass(frozen=True, eq=False)
class Ownership:
    """Frozen result of `plan_ownership`.

    retained        memory whose data the reverse sweep reads (`retained_memory`)
    in_rows         the arrays that are allocated in rows of the tape
    shadows_in_rows the allocations whose shadows are allocated in rows
    reused_shadows  of those, the ones whose shadows are used again; how many are in use at a time
    needless        calls that only count references to, or free, arrays in rows (O2 and O3 of
                    `tape_arrays`)
    deferred        calls that free memory the reverse sweep reads: the tape frees it instead
    unowned         per call, the owners of arrays that need not be passed to its rule: the arrays
                    live as long as the tape, whether or not the rule's tape holds a reference
    """

    retained: frozenset[MemoryObject]
    in_rows: frozenset[MemoryObject]
    shadows_in_rows: frozenset[Instruction]
    reused_shadows: Mapping[Instruction, int]
    needless: frozenset[Instruction]
    deferred: frozenset[Instruction]
    unowned: Mapping[Instruction, frozenset[int]]


def retained_memory(
    facts: Facts, cache: CachePlan, rules: Collection[RuleUse], derived: Collection[Instruction]
) -> frozenset[MemoryObject]:
    """Objects whose primal data the reverse sweep reads, so that the tape must retain them.

    derived   the calls of functions that have derivatives of their own
    """
    memory = facts.memory
    read = _shared_with_calls(facts, derived)
    for node in cache.computed.keys() | cache.needed:
        match node:
            case Primal(Instruction(opcode="load")) if _is_copied(node, cache):
                pass
            case Primal(Instruction(opcode="load") as load):
                read |= memory.objects(load.operands[0])
            case Primal(Instruction(opcode="call") as call) | Shadow(
                Instruction(opcode="call") as call
            ):
                read |= _pointees_of(call.operands, facts)
            case _:
                pass
    for use in rules:
        read |= _pointees_of(use.call.operands[2:], facts)
        if use.result is not None:
            read.add(MemoryObject("result", use.call))
    return frozenset(o for o in read | _owners(read, facts) if o.kind in MADE)


def _is_copied(load: Node, cache: CachePlan) -> bool:
    """Whether the reverse sweep reads a copy on the tape, instead of the memory itself."""
    return any(isinstance(n, Entries) for n in cache.computed.get(load, ()))


def _shared_with_calls(facts: Facts, derived: Collection[Instruction]) -> set[MemoryObject]:
    """Memory passed to or returned by callees; in a callee, also what it returns."""
    memory = facts.memory
    shared: set[MemoryObject] = set()
    for call in derived:
        shared |= memory.called[call].reached | {memory.called[call].fresh}
    if facts.request.callee:
        end = facts.returns.exit.terminator
        shared |= memory.escaping(end.operands[0] if end.operands else None)
    return shared


def _pointees_of(operands: Iterable[Value], facts: Facts) -> set[MemoryObject]:
    """What the pointers among these operands may point to."""
    return {o for p in operands if p.type.is_pointer for o in facts.memory.objects(p)}


def _owners(owned: set[MemoryObject], facts: Facts) -> set[MemoryObject]:
    """Reference-counted objects that may own, and release, plain memory in the set."""
    plain = {o for o in owned if o.kind == "allocation" and not is_counted(o)}
    return {
        holder
        for holder in (facts.memory.contents if plain else ())
        if is_counted(holder) and not plain.isdisjoint(facts.memory.handed_over([holder]))
    }


def plan_ownership(
    facts: Facts,
    retained: frozenset[MemoryObject],
    escaped: frozenset[MemoryObject],
    reused: Mapping[Instruction, int],
    rules: Collection[RuleUse],
) -> Ownership:
    """Decide, for each call that allocates, counts or frees memory, whether the tape takes over."""
    in_rows = arrays_in_rows(facts, retained, escaped)
    calls = [i for i in facts.request.function.instructions() if i.opcode == "call"]
    return Ownership(
        retained=retained,
        in_rows=in_rows,
        shadows_in_rows=frozenset(
            i for i in calls if is_plain(i) and MemoryObject("allocation", i) not in escaped
        ),
        reused_shadows=reused,
        needless=frozenset(i for i in calls if _is_needless(i, in_rows, facts)),
        deferred=frozenset(i for i in calls if _is_deferred(i, retained, facts)),
        unowned={use.call: _unowned(use, retained, facts) for use in rules},
    )


def refuse_leaving(i: Instruction, facts: Facts) -> None:
    """Refuse to leave memory allocated here in the caller's memory, unless that is for results: its
    shadow belongs to the tape, and is freed with it.
    """
    request, memory = facts.request, facts.memory
    if request.callee or (i.opcode != "store" and i not in memory.called):
        return
    for o in {o for w in memory.changes.writes_of(i) for o in memory.written_by(w)}:
        left = memory.contents.get(o, frozenset()) & facts.activity.active_memory
        known = o.is_local or o in request.filled or o in request.caller.changing
        if not known and any(p.kind in MADE for p in left):
            error = refusal(
                i,
                "allocated memory with a derivative is left in memory of the caller",
                "the shadow of what the function allocates is released when the gradient "
                "returns; the caller's shadow would hold a pointer that leads nowhere",
                [
                    "allocate it in the caller, with a shadow, and pass both",
                    "for a list of arrays that a recursive function replaces: one array with an "
                    "axis more, into which it writes",
                ],
                MixedActivity,
            )
            raise explained(error, memory, request.module)


def _is_needless(call: Instruction, in_rows: frozenset[MemoryObject], facts: Facts) -> bool:
    effect = effect_of(call.callee_name)
    if effect is None or not (effect.frees or effect.counts):
        return False
    objects = facts.memory.objects(call.operands[0])
    if effect.frees:
        return any(o in in_rows and not is_counted(o) for o in objects)
    return bool(objects) and objects <= in_rows


def _is_deferred(call: Instruction, retained: frozenset[MemoryObject], facts: Facts) -> bool:
    effect = effect_of(call.callee_name)
    if effect is None or not effect.frees:
        return False
    objects = facts.memory.objects(call.operands[0])
    if facts.request.callee and not all(o.is_local for o in objects):
        return True  # memory of a caller, whose reverse sweep may read it
    return not retained.isdisjoint(objects)


def _unowned(use: RuleUse, retained: frozenset[MemoryObject], facts: Facts) -> frozenset[int]:
    if not (use.info.borrows and use.code.borrows):
        return frozenset()
    owners = {a.owner for a in use.info.arguments if a.owner is not None}
    return frozenset(k for k in owners if _outlives(use.call.operands[k], retained, facts))


def _outlives(pointer: Value, retained: frozenset[MemoryObject], facts: Facts) -> bool:
    """Whether the memory that a pointer points to lives as long as the tape."""
    objects, request = facts.memory.objects(pointer), facts.request
    if isinstance(pointer, Argument) and not (request.callee or request.caller.split):
        return True
    return bool(objects) and all(_is_retained(o, retained, facts) for o in objects)


def _is_retained(o: MemoryObject, retained: frozenset[MemoryObject], facts: Facts) -> bool:
    """Whether the tape owns a reference to an object from the moment it is allocated."""
    if o not in retained or not isinstance(o.key, Instruction):
        return False
    return o.kind == "allocation" or facts.calls.marked(o.key) is not None
