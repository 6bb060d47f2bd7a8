"""The augmented primal: the primal that also fills the tape and allocates shadows.

Needs       a Plan and its Layout
Gives       the function `<name>.augmented`, which returns a status: 0; on error paths that of the
            primal; OUT_OF_MEMORY
Invariants  P1  it computes what the primal computes, in the same order, and writes the same memory
            P2  shadow memory that was passed in is read and written only to copy pointers and
                integers, never floats
            P3  every reference it takes is put on the list of owned objects at once; a reference
                that a call returned leaks if memory runs out before it is on the list
            P4  a kept value is stored right after its definition, each time it is computed: in an
                iteration of its home, or for one entry of its table, always the same value
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from activerules.ir.analysis.loops.affine import Atom, Poly
from activerules.ir.analysis.nodes import LeavingIteration, Link, Primal, Taken
from activerules.ir.analysis.read_ranges import Box, ReadRange
from activerules.ir.analysis.variation import Table
from activerules.ir.generate.augmented_code import AugmentedCode
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.sweep import RowState, clear, integer, leaving_iteration, null
from activerules.ir.llvm.builder import Builder, add_incoming
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.constants import constant
from activerules.ir.llvm.model import Block, Function, Instruction, Value
from activerules.ir.llvm.types import I1, I8, I64, PTR, VOID, StructType, align_up
from activerules.ir.plan.layout import ALIGNMENT, Arrays, Layout, stack_size, taken_type
from activerules.ir.plan.plan import Plan
from activerules.ir.tape.runtime import COPY_ROWS

_PRODUCT, _WITH_OVERFLOW = "llvm.umul.with.overflow.i64", StructType((I64, I1))
_PART = 8
"""An array takes at most this part of the memory that a tape may take: where the derivative is
differentiated again, each lane has one more.
"""


def build_augmented(
    plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
) -> Function:
    """The augmented primal as a new function; functions it calls are added to `declarations`."""
    return _Augmenter(plan, layout, scopes, declarations).build()


class _Augmenter(AugmentedCode):
    """The blocks and loops of the augmented primal.

    later    actions that need all blocks: they run at the end
    edges    blocks that were inserted on edges out of loops
    """

    def __init__(
        self, plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
    ) -> None:
        super().__init__(plan, layout, scopes, declarations)
        self.later: list[Callable[[], None]] = []
        self.taken: dict[Block, Instruction] = {}
        self.edges: dict[tuple[Block, Block], Block] = {}

    def build(self) -> Function:
        for block in self.plan.flow.order:
            self._block(block)
        self._connect()
        for action in self.later:
            action()
        for block in self.plan.flow.order:
            self._phis(block)
        self._split_exits()
        self.blocks += self.ends.values()
        return self.function

    # --- blocks ---

    def _block(self, block: Block) -> None:
        self._open(self.heads[block])
        if block is self.plan.flow.order[0]:
            self._clear_stack_shadows()
        live = block in self.plan.returns.live
        phis = list(block.phis)
        for phi in phis:
            self._clone(phi)
        own = block.instructions[len(phis) :]
        if live:
            self._begin(block, phis)
            self._copy_entries(block)
        for i in own[:-1]:
            self._instruction(i, live)
        if live:
            self._make_tables(block)
            self._reserve_rows(block)
        self._terminator(block)
        self.tails[block] = self.current

    def _clear_stack_shadows(self) -> None:
        for (i, shadow), offset in self.layout.stack.items():
            if shadow:
                size = stack_size(i, self.plan.request.module.types)
                size += (self.width - 1) * align_up(size, ALIGNMENT)
                start = self.slots.frame_address(self.b, offset)
                clear(self.b, start, self.b.const(I64, size))

    def _begin(self, block: Block, phis: list[Instruction]) -> None:
        for phi in phis:
            self._begin_phi(phi)
        taken = None
        if self._is_kept(Taken(block)):
            taken = self.b.phi(taken_type(self.plan, block))
            self.taken[block] = taken
        loop = self.plan.flow.loop_of(block)
        if loop is not None and loop.header is block and loop in self.plan.reversal.loops:
            self._enter_iteration(loop)
        if taken is not None:
            self._keep(Taken(block), taken)
        for phi in phis:
            self._keep(Primal(phi), self.values[phi])
            self._keep_shadow(phi)

    def _make_tables(self, block: Block) -> None:
        """In the preheader of a loop, before the terminator, reserve the tables that it fills."""
        for node, keeping in self.plan.keeping.items():
            table = keeping.table
            if table is None or table.loop.preheader is not block:
                continue
            first = self._integer(table.first, table.counters)
            count = self._product(table)
            _, base = self._reserve_entries(table.base, first, count, table.size)
            self.slots.tables[table] = base
            address, _ = self.slots.slot(self.b, node)
            self.b.store(base, address, metadata=self.scopes.tape_access)

    def _copy_entries(self, block: Block) -> None:
        """After a loop, copy what it has read."""
        b = self.b
        for node, entries in self.plan.ranges.items():
            if entries.after is not block:
                continue
            first, *others = [self._integer(p, entries.counters) for p in entries.firsts]
            for other in others:
                first = b.intrinsic("llvm.smin", I64, [first, other])
            last, *others = [self._integer(p, entries.counters) for p in entries.lasts]
            for other in others:
                last = b.intrinsic("llvm.smax", I64, [last, other])
            size, one = b.const(I64, entries.size), b.const(I64, 1)
            source = self._value(entries.base)
            have_run = self._have_run(entries)
            if entries.box is None:
                count = b.binary("add", b.binary("sub", last, first), one)
                count = b.select(have_run, count, b.const(I64, 0))
                to, base = self._reserve_entries(entries.base, first, count, entries.size)
                start = b.gep(I8, source, [b.binary("mul", first, size)])
                copied = [to, start, b.binary("mul", count, size), b.const(I1, 0)]
                b.call("llvm.memcpy.p0.p0.i64", VOID, copied)
            else:
                start = b.gep(I8, source, [b.binary("mul", first, size)])
                end = b.gep(I8, source, [b.binary("mul", b.binary("add", last, one), size)])
                base = self._copy_rows(entries, entries.box, have_run, start, end)
            self.slots.write(b, node, base)

    def _copy_rows(
        self, entries: ReadRange, box: Box, have_run: Value, start: Value, end: Value
    ) -> Value:
        """Copy the rows of a box, as far as they lie between two addresses, if the loop has read
        them; returns the address in the copy of an entry for the address 0.
        """
        b, none = self.b, self.b.const(I64, 0)

        def number(poly: Poly) -> Value:
            return self._integer(poly, entries.counters)

        *_, last = box.axes
        total = b.select(have_run, number(last.pitch * last.count), none)
        corner = number(box.corner)
        to, base = self._reserve_entries(entries.base, corner, total, entries.size)
        origin = b.gep(
            I8, self._value(entries.base), [b.binary("mul", corner, b.const(I64, entries.size))]
        )
        operands = [to, origin, start, end, number(box.width * entries.size)]
        for axis in (*box.axes, None)[:2]:
            if axis is None:
                operands += [b.const(I64, 1), none, none]
            else:
                count = b.select(have_run, number(axis.count), none)
                steps = number(axis.stride * entries.size), number(axis.pitch * entries.size)
                operands += [count, *steps]
        b.call(COPY_ROWS, VOID, operands)
        return base

    def _have_run(self, entries: ReadRange) -> Value:
        """Whether the loop has read the first and the last entry (E2 of `read_ranges`)."""
        b, zero = self.b, self.b.const(I64, 0)
        runs: Value = b.const(I1, 1)
        for test in entries.tests:
            if isinstance(test, Poly):
                holds = b.icmp("sge", self._integer(test, entries.counters), zero)
            else:
                holds = b.binary("xor", self._value(test[0]), b.const(I1, int(not test[1])))
            runs = b.select(runs, holds, b.const(I1, 0))
        return runs

    def _reserve_entries(
        self, base: Value, first: Value, count: Value, size: int
    ) -> tuple[Value, Value]:
        """Memory for `count` entries, from the one `first` behind `base` on; and the address in it
        of an entry for the address 0.
        """
        one, each = self.b.const(I64, 1), self.b.const(I64, size)
        count = self.b.intrinsic("llvm.smax", I64, [count, one])
        rows = self.b.call(
            "activerules.tape.reserve_rows", PTR, [self.parameters.tape, count, each]
        )
        self._fail_if_null(rows)
        start = self.b.cast("ptrtoint", self._value(base), I64)
        start = self.b.binary("add", start, self.b.binary("mul", first, each))
        back = self.b.binary("sub", self.b.const(I64, 0), start)
        return rows, self.b.gep(I8, rows, [back])

    def _product(self, table: Table) -> Value:
        """How many entries a table has: one along an axis that is empty."""
        b = self.b
        one = total = b.const(I64, 1)
        for p in table.counts:
            count = b.intrinsic("llvm.smax", I64, [self._integer(p, table.counters), one])
            product = b.call(_PRODUCT, _WITH_OVERFLOW, [total, count])
            self._fail_unless(b.binary("xor", b.extractvalue(product, I1, 1), b.const(I1, 1)))
            total = b.extractvalue(product, I64, 0)
        return total

    def _integer(self, poly: Poly, counters: Mapping[Loop, Value]) -> Value:
        """The value of a polynomial, modulo 2^64."""

        def value_of(atom: Atom) -> Value:
            value = counters[atom] if isinstance(atom, Loop) else atom
            assert isinstance(value, Value)
            return self._value(value)

        return integer(self.b, poly, value_of)

    def _reserve_rows(self, block: Block) -> None:
        """In the preheader of a loop of known length, before the terminator, reserve its rows."""
        target = block.successors[0] if len(block.successors) == 1 else None
        loop = self.plan.flow.loop_of(target) if target is not None else None
        if (
            loop is None
            or loop.preheader is not block
            or target is not loop.header
            or loop not in self.plan.reversal.loops
        ):
            return
        count = self.plan.loops[loop].trip_count
        if count is None:
            return
        rows = self.layout.rows.get(loop)
        arrays = self._arrays_with(loop)
        if rows is None and arrays is None and not self._is_kept(LeavingIteration(loop)):
            return
        start, bound = self._value(count.start), self._value(count.bound)
        leaving = leaving_iteration(self.b, count, start, bound)
        self._keep(LeavingIteration(loop), leaving)
        if rows is None and arrays is None:
            return
        number = self.b.binary("add", leaving, self.b.const(I64, 1))
        if arrays is not None:
            self._make_room(arrays, loop, number)
            self.slots.state[loop] = RowState(null(), None, None)
        if rows is not None:
            base = self.b.call(
                "activerules.tape.reserve_rows",
                PTR,
                [self.parameters.tape, number, self.b.const(I64, rows.size)],
            )
            self._fail_if_null(base)
            self.slots.write(self.b, Link(loop), base)
            self.slots.state[loop] = RowState(base, number, None)

    def _arrays_with(self, loop: Loop) -> Arrays | None:
        """The arrays of the layout, if they have entries by the iterations of this loop."""
        arrays = self.layout.arrays
        return arrays if arrays is not None and loop in arrays.loops else None

    def _make_room(self, arrays: Arrays, loop: Loop, number: Value) -> None:
        """In the preheader of an outermost loop, allocate the arrays of its nest; in that of
        another loop, make sure that they have room for this number of iterations.

        They have none for a loop with too many iterations, which may never run; nor if the largest
        number is wrong, because its computation wrapped around.
        """
        if loop.parent is not None:
            room = self.b.load(I64, self.slots.frame_address(self.b, arrays.extents[loop].offset))
            self._fail_unless(self.b.icmp("ule", number, room))
            return
        limit = self.b.const(I64, self.plan.request.limits.tape // (_PART * 8))
        one, none = self.b.const(I64, 1), self.b.const(I64, 0)
        self._fail_unless(self.b.icmp("ule", number, limit))
        rooms: dict[Loop | None, Value] = {loop: number}
        for inner, extent in arrays.extents.items():
            if inner.parent in rooms:
                most = self._integer(extent.most, {})
                most = self.b.intrinsic("llvm.smax", I64, [most, one])
                product = self.b.call(_PRODUCT, _WITH_OVERFLOW, [rooms[inner.parent], most])
                room = self.b.extractvalue(product, I64, 0)
                wraps = self.b.extractvalue(product, I1, 1)
                large = self.b.binary("or", wraps, self.b.icmp("ugt", room, limit))
                most = self.b.select(large, none, most)
                self.b.store(most, self.slots.frame_address(self.b, extent.offset))
                rooms[inner] = self.b.select(large, none, room)
        for node, (start, slot) in arrays.entries.items():
            room = rooms.get(self.plan.home(node))
            if room is not None:
                room = self.b.intrinsic("llvm.umax", I64, [room, one])
                size = self.b.binary("mul", room, self.b.const(I64, slot.size))
                array = self.b.call("malloc", PTR, [size])
                self.b.store(array, self.slots.frame_address(self.b, start))
                self._fail_if_null(array)

    def _enter_iteration(self, loop: Loop) -> None:
        """At the start of an iteration, count it and reserve its row."""
        rows = self.layout.rows.get(loop)
        known = self.plan.loops[loop].trip_count is not None
        leaving = self._is_kept(LeavingIteration(loop)) and not known
        if rows is None and not leaving and self._arrays_with(loop) is None:
            return
        iteration = self.b.phi(I64, hint="iteration") if known or leaving else None
        chain = None if known else rows
        previous = self.b.phi(PTR, hint="row.before") if chain is not None else None
        if iteration is not None:
            following = self.b.binary("add", iteration, self.b.const(I64, 1))
            zero = self.b.const(I64, 0)
            self.later.append(partial(self._close_phi, iteration, loop, zero, following))
        if known:
            self.slots.state[loop].iteration = iteration
            return
        row: Value = null()
        if chain is not None and previous is not None:
            size = self.b.const(I64, chain.size)
            row = self.b.call("activerules.tape.reserve", PTR, [self.parameters.tape, size])
            self._fail_if_null(row)
            self.b.store(previous, row)
            self.later.append(partial(self._close_phi, previous, loop, null(), row))
        self.slots.state[loop] = RowState(row, None, iteration)

    def _close_phi(self, phi: Instruction, loop: Loop, start: Value, following: Value) -> None:
        for p in self.plan.flow.predecessors[loop.header]:
            add_incoming(phi, start if p is loop.preheader else following, self.tails[p])

    def _phis(self, block: Block) -> None:
        """Set what comes into the phis of a block, and into the number of the edge taken."""
        for phi in block.phis:
            self._connect_phi(phi)
        taken = self.taken.get(block)
        live = self.plan.returns.predecessors.get(block, ())
        if taken is not None:
            for source in self.plan.flow.predecessors[block]:
                number = live.index(source) if source in live else 0
                add_incoming(taken, constant(taken.type, number), self.tails[source])

    def _split_exits(self) -> None:
        """On the edges out of a loop of unknown length, store where the reverse sweep enters it:
        the number of the iteration that left the loop, and the address of the last row.
        """
        for loop in self.plan.reversal.loops:
            if self.plan.loops[loop].trip_count is not None:
                continue
            if loop not in self.layout.rows and not self._is_kept(LeavingIteration(loop)):
                continue
            for inside, outside in self.plan.returns.exits_of(loop):
                self._open(self._edge(inside, outside))
                state = self.slots.state[loop]
                end = self.current.instructions.pop()
                if self._is_kept(LeavingIteration(loop)):
                    assert state.iteration is not None
                    self.slots.write(self.b, LeavingIteration(loop), state.iteration)
                if loop in self.layout.rows:
                    self.slots.write(self.b, Link(loop), state.base)
                self.current.append(end)

    def _edge(self, inside: Block, outside: Block) -> Block:
        """The block that is inserted on an edge."""
        block = self.edges.get((inside, outside))
        if block is not None:
            self.blocks.remove(block)
            return block
        edge = self.edges[inside, outside] = Block(self.namer("leave"))
        Builder(edge, self.namer).br(self.heads[outside])
        tail = self.tails[inside]
        tail.terminator.blocks = [
            edge if t is self.heads[outside] else t for t in tail.terminator.blocks
        ]
        for phi in self.heads[outside].phis:
            phi.blocks = [edge if t is tail else t for t in phi.blocks]
        return edge

    def _terminator(self, block: Block) -> None:
        end = block.terminator
        if end.opcode != "ret":
            copy = self._clone(end)
            loop = self.plan.flow.loop_of(block)
            if loop is not None and loop.latch is block:
                serial = not loop.children and any(p.type.is_float for p in loop.header.phis)
                copy.attributes["metadata"] = self.slots.scopes.loop(serial=serial)
            return
        if self.plan.request.returned.kind == "status":
            self._clone(end)
        else:
            self.later.append(partial(self._hand_back_in, self.current, end))

    def _hand_back_in(self, block: Block, end: Instruction) -> None:
        self.b.target = block
        self._hand_back(end)
