"""The layout of frame and tape: the offset of each kept node.

Needs       a Plan
Gives       Layout, frozen: offsets in the frame (values outside loops, stack memory) and in the
            rows of each loop
Invariants  T1  a node of a loop lies in a row of that loop; its address needs only the loop's own
                base, length and iteration
            T2  the base of a loop's rows is itself kept in the enclosing row (or in the frame):
                `Link`
            T3  a loop of known length has its rows side by side, value by value: the field of
                iteration k is at base + length * offset + k * size
            T4  a loop of unknown length has a row per iteration, which begins with a pointer to the
                previous row
            T5  a value that is kept by address has a Table, whose address lies in such a slot; so
                does that of Entries
            T6  in a layout with `Arrays`, which the engine can differentiate, nothing is kept in
                rows: each node of a loop has an array of its own, of one type, on the heap
            T7  the same function has the same layout in every process
            docs/decisions/0002 and 0087 give the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from activerules.ir.analysis.loops.affine import Poly
from activerules.ir.analysis.loops.trip_counts import is_invariant
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import (
    CalleeFrame,
    Entries,
    LeavingIteration,
    Link,
    Node,
    Primal,
    RuleTape,
    SavedStruct,
    Shadow,
    Taken,
)
from activerules.ir.analysis.variation import at_end, last_iteration
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.types import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    ArrayType,
    NamedTypes,
    Type,
    align_up,
    alignment_of,
    size_of,
)
from activerules.ir.normal.effects import counted_memory, effect_of
from activerules.ir.plan.plan import Plan

ALIGNMENT = 16


@dataclass(frozen=True)
class TapeSlot:
    """A slot: `size` bytes at `offset` of the frame or row; stored as `type` (None: raw memory)."""

    offset: int
    size: int
    type: Type | None


@dataclass(frozen=True, eq=False)
class RowLayout:
    """The layout of the tape rows of one loop, one row per iteration."""

    loop: Loop
    known_length: bool
    fields: dict[Node, TapeSlot]
    size: int


@dataclass(frozen=True, eq=False)
class Extent:
    """For how many iterations of a loop inside another there is room, each time it runs.

    most     the largest number of iterations, in terms of values defined outside the outermost loop
    offset   of the number in the frame
    """

    most: Poly
    offset: int


@dataclass(frozen=True, eq=False)
class Arrays:
    """Where the nodes of loops are kept, instead of in rows (T6).

    The entry for the current iterations has the index `((i * extent of the second loop) + j) …`,
    with the iterations i, j, … of the loops around the node, outermost first.

    entries   per node: the offset in the frame of the address of its array, and the slot of entry 0
    owned     what the gradient releases besides, by the call that allocates or would free it, and
              whether it is the shadow: the offset in the frame of its address, which is null if the
              call was not reached, and the function that releases it
    loops     in which a node is kept, and those around them
    extents   of these loops but the outermost ones, outer loops first
    """

    entries: Mapping[Node, tuple[int, TapeSlot]]
    owned: Mapping[tuple[Instruction, bool], tuple[int, str]]
    extents: Mapping[Loop, Extent]
    loops: frozenset[Loop]


@dataclass(frozen=True, eq=False)
class Layout:
    """Frozen result of `make_layout`.

    stack   offsets in the frame: of an alloca at (alloca, False), of its shadow at (alloca, True).
            The shadows of all lanes follow one another, each at a multiple of ALIGNMENT.
    """

    frame: dict[Node, TapeSlot]
    frame_size: int
    stack: dict[tuple[Instruction, bool], int]
    rows: dict[Loop, RowLayout]
    arrays: Arrays | None = None

    def field(self, node: Node, home: Loop | None) -> TapeSlot:
        """The slot of a kept node, or of the address of its table."""
        return self.frame[node] if home is None else self.rows[home].fields[node]


def _in_order(plan: Plan) -> list[Node]:
    """The kept nodes, in the same order in every process, unlike the names of rules."""
    everything = (i for block in plan.flow.order for i in block.instructions)
    at = {i: k for k, i in enumerate(everything)}

    def key(node: Node) -> tuple[str, int]:
        match node:
            case RuleTape(call) | SavedStruct(call) | CalleeFrame(call):
                return repr(node).removesuffix(call.callee_name or ""), at[call]
            case _:
                return repr(node), 0

    return sorted(plan.cache.kept, key=key)


def make_layout(plan: Plan) -> Layout:
    """Assign a slot to every kept node, innermost loops first."""
    by_home: dict[Loop | None, list[Node]] = {}
    for node in _in_order(plan):
        by_home.setdefault(plan.home(node), []).append(node)
    rows: dict[Loop, RowLayout] = {}
    for loop in sorted(plan.loops, key=lambda loop: -loop.depth):
        links = [Link(child) for child in loop.children if child in rows]
        nodes = by_home.get(loop, []) + links
        if nodes:
            known = plan.loops[loop].trip_count is not None
            fields, size = _pack(nodes, plan, 0 if known else 8)
            rows[loop] = RowLayout(loop, known, fields, size)
    outer = [Link(loop) for loop in rows if loop.parent is None]
    frame, end = _pack(by_home.get(None, []) + outer, plan, 0)
    stack, end = _stack_offsets(plan, end)
    return Layout(frame, end, stack, rows)


def without_rows(plan: Plan) -> Plan:
    """The plan for code that is differentiated again: nothing is in rows of the tape, and nothing
    is done that would not have the derivative of what it stands for.
    """
    none: frozenset[Any] = frozenset()
    ownership = replace(
        plan.ownership, in_rows=none, shadows_in_rows=none, reused_shadows={}, needless=none
    )
    sums = replace(plan.sums, passed_over={}, added_if_chosen=none, hidden_rows=none)
    # data is found in headers, in which the analyses see no pointer to it
    return replace(plan, ownership=ownership, sums=sums, fixed_data=none)


def make_array_layout(plan: Plan) -> Layout | None:
    """A layout with `Arrays`, for a plan by `without_rows`.

    None if a node needs a row, if there is a loop around one whose number of iterations is not
    bounded before the outermost loop begins, or if something is owned that a loop allocates.
    """
    kept = _in_order(plan)
    homes = {node: home for node in kept if (home := plan.home(node)) is not None}
    around = {loop: None for home in homes.values() for loop in home.ancestors()}
    loops = sorted(around, key=lambda loop: loop.depth)
    most = {loop: _most_iterations(loop, plan) for loop in loops if loop.parent is not None}
    owned = list(owned_by_tape(plan))
    if (
        any(plan.table(node) is not None or isinstance(node, Entries) for node in kept)
        or any(plan.loops[loop].trip_count is None for loop in loops)
        or None in most.values()
        or any(plan.flow.loop_of(call.owner) is not None for (call, _), _ in owned)
    ):
        return None
    frame, end = _pack([node for node in kept if node not in homes], plan, 0)
    offsets = count(align_up(end, 8), 8)
    entries: dict[Node, tuple[int, TapeSlot]] = {}
    for node in homes:
        size, _, t = _extent(node, plan)
        if t is None or not (t.is_float or t.is_int):
            return None
        entries[node] = next(offsets), TapeSlot(0, size, t)
    extents = {loop: Extent(p, next(offsets)) for loop, p in most.items() if p is not None}
    released = {site: (next(offsets), function) for site, function in owned}
    stack, end = _stack_offsets(plan, next(offsets))
    return Layout(frame, end, stack, {}, Arrays(entries, released, extents, frozenset(loops)))


def _most_iterations(loop: Loop, plan: Plan) -> Poly | None:
    """The largest number of iterations of an inner loop each time it runs, if it is known before
    the outermost loop around it begins.
    """
    around = list(loop.ancestors())[1:]
    last = last_iteration(loop, plan.loops, plan.integers)
    for outer in around:
        if last is not None and outer in last.atoms:
            final = last_iteration(outer, plan.loops, plan.integers)
            if final is None or any(outer in m and len(m) > 1 for m in last.terms):
                return None
            last = at_end(last, outer, final, 1)
    if last is None or not all(
        isinstance(atom, Value) and atom.type == I64 and is_invariant(atom, around[-1])
        for atom in last.atoms
    ):
        return None
    return last + 1


def owned_by_tape(plan: Plan) -> Iterator[tuple[tuple[Instruction, bool], str]]:
    """Which memory the reverse sweep outlives, as in `Arrays.owned`, and what releases it."""
    for block in plan.flow.order:
        for i in block.instructions if block in plan.returns.live else ():
            effect = effect_of(i.callee_name) if i.opcode == "call" else None
            if effect is None:
                continue
            memory = MemoryObject("allocation", i)
            made = effect.allocates
            if i in plan.ownership.deferred and effect.frees:
                yield (i, False), effect.frees
            elif made and made.counted and memory in plan.ownership.retained:
                yield (i, False), counted_memory().release
            if made and memory in plan.activity.active_memory:
                yield (i, True), made.released_by


def _pack(nodes: list[Node], plan: Plan, start: int) -> tuple[dict[Node, TapeSlot], int]:
    """The slots of nodes, and the end of the last one.

    Sorted by decreasing alignment, so that there are no gaps, and any multiple of an offset stays
    aligned.
    """
    sized = [(_extent(node, plan), node) for node in nodes]
    sized.sort(key=lambda entry: -entry[0][1])
    fields: dict[Node, TapeSlot] = {}
    end = start
    for (size, alignment, t), node in sized:
        end = align_up(end, alignment)
        fields[node] = TapeSlot(end, size, t)
        end += size
    return fields, end


def _extent(node: Node, plan: Plan) -> tuple[int, int, Type | None]:
    """Size, alignment and type of a slot."""
    match node:
        case Primal() if plan.table(node) is not None:
            return 8, 8, PTR
        case Primal(value):
            t = I8 if value.type == I1 else value.type
            named = plan.request.module.types
            return size_of(t, named), min(alignment_of(t, named), ALIGNMENT), t
        case Shadow() if plan.request.width > 1:
            return 8 * plan.request.width, 8, None
        case Shadow() | Link() | CalleeFrame() | Entries():
            return 8, 8, PTR
        case LeavingIteration():
            return 8, 8, I64
        case Taken(block):
            t = taken_type(plan, block)
            return size_of(t), size_of(t), t
        case RuleTape(_, size, alignment):
            return align_up(size, min(alignment, ALIGNMENT)), min(alignment, ALIGNMENT), None
        case SavedStruct(_, is_shadow, size):
            return align_up(size, 8) * (plan.request.width if is_shadow else 1), 8, None


def shadow_offset(saved: SavedStruct, lane: int) -> int:
    """The offset, in its slot, of the shadow of a rule's result in one lane."""
    return lane * align_up(saved.size, 8)


def taken_type(plan: Plan, block: Block) -> Type:
    """The integer that numbers the live predecessors of a join."""
    return I8 if len(plan.returns.predecessors[block]) <= 1 << 8 else I32


def _stack_offsets(plan: Plan, end: int) -> tuple[dict[tuple[Instruction, bool], int], int]:
    """Offsets for the primal's stack memory, which the reverse sweep may read, and for its shadows;
    and the end of the last one.
    """
    stack: dict[tuple[Instruction, bool], int] = {}
    for i in plan.flow.order[0].instructions:
        if i.opcode != "alloca":
            continue
        shadows = (False, True) if plan.activity.has_shadow(i) else (False,)
        for shadow in shadows:
            end = align_up(end, ALIGNMENT)
            stack[i, shadow] = end
            size = stack_size(i, plan.request.module.types)
            end += (plan.request.width - 1) * align_up(size, ALIGNMENT) * shadow + size
    return stack, end


def stack_size(alloca: Instruction, named: NamedTypes) -> int:
    """The number of bytes of an alloca, which is fixed (N7)."""
    number = integer_of(alloca.operands[0]) if alloca.operands else 1
    assert number is not None
    return number * size_of(alloca.attributes["allocated"], named)


def stack_type(size: int) -> Type:
    """The type of `size` bytes of stack memory."""
    return ArrayType(size, I8)
