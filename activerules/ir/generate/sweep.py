"""Shared by the two sweeps: parameters, addresses in the frame and on the tape, and names.

Both generated functions take each primal parameter, followed by its shadow if it is Duplicated (one
per lane); then `ptr frame` and `ptr tape`; `reverse` also takes the memory for its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from activerules.ir.analysis.loops.affine import Atom, Poly
from activerules.ir.analysis.loops.trip_counts import TripCount
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.nodes import Node, Primal
from activerules.ir.analysis.types.copies import CopiedScalar
from activerules.ir.analysis.variation import Table
from activerules.ir.generate.scopes import Scopes
from activerules.ir.llvm.builder import Builder, Namer, at_offset, suffixed
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Argument, Constant, Instruction, Value
from activerules.ir.llvm.types import I1, I8, I64, PTR, VOID, align_up
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.layout import ALIGNMENT, Arrays, Layout, TapeSlot, stack_size
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.request import Request

KEPT_CONDITION = "kept condition"
"""Marks an instruction that truncates a byte of the tape, which is 0 or 1, to a condition."""

UNCHANGED = "unchanged"
"""Marks a load of the reverse sweep from memory of the primal, or from the tape: the sweep changes
neither.
"""

Lanes = tuple[Value, ...]
"""A value per lane: with width N, the sweeps carry N cotangents at once."""


@dataclass(eq=False)
class Parameters:
    """The parameters of a generated function, and how those of the primal map to them."""

    arguments: list[Argument]
    primal: dict[Value, Value]
    shadow: dict[Value, Lanes]
    frame: Argument
    tape: Argument


def make_parameters(plan: Plan, extra: list[Argument]) -> Parameters:
    """New parameters for one generated function, followed by the `extra` ones."""
    taken = plan.request.function.local_names()
    # pointers to stack memory that are read from the tape are not derived from this parameter
    keeps_stack = any(i.opcode == "alloca" for i in plan.flow.order[0].instructions)
    frame = Argument("ar.frame", PTR, "" if keeps_stack else "noalias")
    tape = Argument("ar.tape", PTR, "noalias")
    parameters = Parameters([], {}, {}, frame, tape)
    for parameter in plan.request.parameters:
        old = parameter.argument
        primal = Argument(old.name, old.type)
        parameters.primal[old] = primal
        parameters.arguments.append(primal)
        if parameter.activity == "duplicated":
            lanes = [
                Argument(_free(suffixed(old.name, ".shadow"), taken), PTR)
                for _ in range(plan.request.width)
            ]
            parameters.shadow[old] = tuple(lanes)
            parameters.arguments += lanes
    for added in (frame, tape, *extra):
        added.name = _free(added.name, taken)
        parameters.arguments.append(added)
    return parameters


def result_parameters(request: Request) -> list[Argument]:
    """The parameters to which a callee's augmented primal stores the result and its shadow."""
    if not request.callee or request.returned.kind == "status":
        return []
    value = [] if request.function.result is VOID else [Argument("ar.result", PTR)]
    return [*value, *([Argument("ar.result.shadow", PTR)] if request.returned.shadow else [])]


def _free(name: str, taken: set[str]) -> str:
    """`name`, or a longer one that is not in `taken`; it is added to `taken`."""
    while name in taken:
        name = suffixed(name, "_")
    taken.add(name)
    return name


def names_of(facts: Facts) -> Namer:
    """A maker of names that no value of the primal has."""
    return Namer("ar", facts.request.function.local_names())


def clone(i: Instruction, memory: MemoryFacts, scopes: Scopes) -> Instruction:
    """A copy of the instruction for a derivative, still with the operands of the primal.

    Its source metadata is dropped; a load or store gets alias scopes.
    """
    dropped = {"metadata", "tail", "location", "call_attributes"}
    attributes = {k: v for k, v in i.attributes.items() if k not in dropped}
    if i.opcode in {"load", "store"}:
        attributes["metadata"] = scopes.primal_access(memory.objects(i.operands[-1]))
    operands, blocks = list(i.operands), list(i.blocks)
    return Instruction(i.opcode, i.type, operands, i.name, i.flags, blocks, i.callee, attributes)


def null() -> Constant:
    """The null pointer."""
    return Constant(PTR, "null")


def clear(b: Builder, pointer: Value, size: Value) -> None:
    """Set `size` bytes (an i64) to zero."""
    b.call("llvm.memset.p0.i64", VOID, [pointer, b.const(I8, 0), size, b.const(I1, 0)])


def clear_but(b: Builder, pointer: Value, size: Value, preserved: Sequence[CopiedScalar]) -> None:
    """Like `clear`, but keep the pointers and integers in `preserved`, which another sweep over the
    tape needs.
    """
    addresses = [at_offset(b, pointer, scalar.offset) for scalar in preserved]
    values = [
        b.load(p.type, address, align=1) for p, address in zip(preserved, addresses, strict=True)
    ]
    clear(b, pointer, size)
    for value, address in zip(values, addresses, strict=True):
        b.store(value, address, align=1)


def add_scalars(b: Builder, scalars: Sequence[CopiedScalar], target: Value, source: Value) -> None:
    """Reverse a copy of scalars, from the shadow of its target to that of its source.

    All cotangents are taken before any is added, since the two may overlap. The sum of two zeros is
    +0.0 if both are, else -0.0, which in some arrays says that a float was used.
    """
    addresses = [at_offset(b, target, scalar.offset) for scalar in scalars]
    bars = [b.load(p.type, address, align=1) for p, address in zip(scalars, addresses, strict=True)]
    for scalar, address in zip(scalars, addresses, strict=True):
        b.store(b.const(scalar.type, 0.0), address, align=1)
    for scalar, bar in zip(scalars, bars, strict=True):
        address = at_offset(b, source, scalar.offset)
        old = b.load(scalar.type, address, align=1)
        b.store(b.fneg(b.fsub(b.fneg(old), bar)), address, align=1)


def leaving_iteration(b: Builder, count: TripCount, start: Value, bound: Value) -> Value:
    """The number of the iteration that leaves a loop, as an i64, from values of start and bound."""
    t = start.type
    first = b.binary("add", start, b.const(t, count.step)) if count.after else start
    number = _steps_until(b, count, first, bound)
    return number if t is I64 else b.cast("zext", number, I64)


def _steps_until(b: Builder, count: TripCount, first: Value, bound: Value) -> Value:
    t, up = first.type, count.step > 0
    distance = b.binary("sub", bound, first) if up else b.binary("sub", first, bound)
    if count.predicate == "ne":
        return distance
    if count.predicate == "eq":
        return b.select(b.icmp("eq", first, bound), b.const(t, 1), b.const(t, 0))
    if count.predicate[1:] in {"lt", "gt"}:
        distance = b.binary("sub", distance, b.const(t, 1))
    stride = abs(count.step)
    steps = distance if stride == 1 else b.binary("udiv", distance, b.const(t, stride))
    number = b.binary("add", steps, b.const(t, 1))
    return b.select(b.icmp(count.predicate, first, bound), number, b.const(t, 0))


def by_address(b: Builder, base: Value, pointer: Value) -> Value:
    """The entry for the address `pointer`, where `base` is the one for the address 0."""
    return b.gep(I8, base, [b.cast("ptrtoint", pointer, I64)])


def integer(b: Builder, poly: Poly, value_of: Callable[[Atom], Value]) -> Value:
    """The value of a polynomial, modulo 2^64."""
    total: Value = b.const(I64, 0)
    for monomial, c in poly.terms.items():
        term: Value = b.const(I64, c)
        for atom in monomial:
            term = b.binary("mul", term, value_of(atom))
        total = b.binary("add", total, term)
    return total


@dataclass(eq=False)
class RowState:
    """The rows and the iteration of a loop at the current point of a sweep.

    base        the address of all rows (known length), or of the current row
    count       the number of rows, if their length is known
    iteration   the current one, from 0
    """

    base: Value
    count: Value | None
    iteration: Value | None


@dataclass(eq=False)
class Slots:
    """Addresses of kept nodes in the function under construction.

    value_of   the value, in this function, of a value of the primal
    tables     the addresses of tables that this function has reserved; others are loaded from slots
    """

    plan: Plan
    layout: Layout
    frame: Value
    scopes: Scopes
    value_of: Callable[[Value], Value]
    state: dict[Loop, RowState] = field(default_factory=dict[Loop, RowState])
    tables: dict[Table, Value] = field(default_factory=dict[Table, Value])

    def address(self, b: Builder, node: Node) -> tuple[Value, TapeSlot]:
        """A pointer to where the node is kept in the current iterations: its slot, or an entry of
        its table.
        """
        table = self.plan.table(node)
        if table is None or not isinstance(node, Primal):
            return self.slot(b, node)
        t = node.value.type
        base = self.tables.get(table)
        if base is None:
            base = b.load(PTR, self.slot(b, node)[0], metadata=self.scopes.tape_access)
        address = by_address(b, base, self.value_of(table.pointer))
        if table.skipped.terms:
            address = b.gep(I8, address, [integer(b, table.skipped * -table.size, self._value_of)])
        return address, TapeSlot(0, table.size, t)

    def _value_of(self, atom: Atom) -> Value:
        assert isinstance(atom, Value)
        return self.value_of(atom)

    def pointer(self, b: Builder, node: Node | None) -> Value:
        """A pointer to where the node is kept; null if there is none."""
        return self.address(b, node)[0] if node is not None else null()

    def slot(self, b: Builder, node: Node) -> tuple[Value, TapeSlot]:
        """A pointer to the node's slot in the frame or in a row."""
        home = self.plan.home(node)
        if home is not None and self.layout.arrays is not None:
            return self._entry(b, self.layout.arrays, home, node)
        slot = self.layout.field(node, home)
        if home is None:
            return self.frame_address(b, slot.offset), slot
        return self._row_address(b, home, slot), slot

    def _entry(self, b: Builder, arrays: Arrays, home: Loop, node: Node) -> tuple[Value, TapeSlot]:
        """A pointer to the node's entry in its array."""
        start, slot = arrays.entries[node]
        assert slot.type is not None
        index: Value | None = None
        for loop in reversed(list(home.ancestors())):
            iteration = self.state[loop].iteration
            assert iteration is not None
            if index is None:
                index = iteration
                continue
            extent = b.load(I64, self.frame_address(b, arrays.extents[loop].offset))
            index = b.binary("add", b.binary("mul", index, extent), iteration)
        assert index is not None
        array = b.load(PTR, self.frame_address(b, start))
        return b.gep(slot.type, array, [index], flags=("inbounds",)), slot

    def write_lanes(self, b: Builder, node: Node, lanes: Lanes) -> None:
        """Store the shadows of all lanes, side by side."""
        start = self.pointer(b, node)
        for k, lane in enumerate(lanes):
            b.store(lane, at_offset(b, start, 8 * k), metadata=self.scopes.tape_access)

    def read_lane(self, b: Builder, node: Node, lane: int) -> Value:
        """Load the shadow of one lane."""
        address = at_offset(b, self.pointer(b, node), 8 * lane)
        return b.load(PTR, address, metadata=self.scopes.tape_access)

    def stack_shadow(self, b: Builder, alloca: Instruction, lane: int) -> Value:
        """The shadow of stack memory in one lane."""
        each = align_up(stack_size(alloca, self.plan.request.module.types), ALIGNMENT)
        return self.frame_address(b, self.layout.stack[alloca, True] + lane * each)

    def frame_address(self, b: Builder, offset: int) -> Value:
        """A pointer to a byte of the frame."""
        return b.gep(I8, self.frame, [b.const(I64, offset)], flags=("inbounds",))

    def _row_address(self, b: Builder, home: Loop, slot: TapeSlot) -> Value:
        rows, state = self.layout.rows[home], self.state[home]
        if not rows.known_length:
            return b.gep(I8, state.base, [b.const(I64, slot.offset)], flags=("inbounds",))
        assert state.count is not None
        assert state.iteration is not None
        column = state.base
        if slot.offset:
            skip = b.binary("mul", state.count, b.const(I64, slot.offset))
            column = b.gep(I8, state.base, [skip], flags=("inbounds",))
        if slot.type is not None:
            return b.gep(slot.type, column, [state.iteration], flags=("inbounds",))
        skip = b.binary("mul", state.iteration, b.const(I64, slot.size))
        return b.gep(I8, column, [skip], flags=("inbounds",))

    def write(self, b: Builder, node: Node, value: Value) -> None:
        """Store a value in its slot; an i1 takes a byte."""
        address = self.pointer(b, node)
        if value.type == I1:
            value = b.cast("zext", value, I8)
        b.store(value, address, metadata=self.scopes.tape_access)

    def read(self, b: Builder, node: Node) -> Value:
        """Load a kept value from the frame or its row of the tape."""
        address, slot = self.address(b, node)
        assert slot.type is not None
        value = b.load(slot.type, address, metadata=self.scopes.tape_access)
        value.attributes[UNCHANGED] = True
        if not (isinstance(node, Primal) and node.value.type == I1):
            return value
        condition = b.cast("trunc", value, I1)
        condition.attributes[KEPT_CONDITION] = True
        return condition
