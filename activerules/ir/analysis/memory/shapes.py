"""Shapes: where floats and pointers are in memory, in a whole module, by the structure of memory.

Needs       a module in normal form; how calls are interpreted; the function to differentiate
Gives       `Shapes`: `may_hold(access, kind)`, `may_be_bits(value)`
Invariants  H1  a node stands for blocks of memory; a block belongs to one node, whatever pointer
                leads to it, or to an open one (H3)
            H2  a pointer has one of the addresses of its cell, which count from the start of the
                block it points into
            H3  of open nodes nothing is known: memory that comes from outside, that is passed to an
                unknown function, or that is reachable from such memory
Source      Lattner, Lenharth, Adve (2007), Making context-sensitive points-to analysis with heap
            cloning practical for the real world; Steensgaard (1996). Without context.

`points_to` distinguishes objects by their allocation site, and addresses in them by their base.
Where a pointer was loaded, merged, or passed to a recursive function, its base is a different value
each time. Here nodes are unified instead: the children of a tree are one node with its root, and an
address in it is a number of bytes from the start of any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.addresses import Address, steps_of
from activerules.ir.analysis.memory.counted import only_counted
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.memory.offsets import (
    ANYWHERE,
    START,
    covers,
    moved,
    offsets_of,
    shifted,
    widest,
)
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import (
    BINARY_INT,
    Argument,
    Constant,
    Function,
    GlobalRef,
    Instruction,
    Module,
    Value,
)
from activerules.ir.llvm.types import I64, PTR, Type, size_of
from activerules.ir.normal.effects import CallEffect, effect_of, memory_intrinsic

Kind = Literal["float", "pointer"]

_MOST_ADDRESSES = 12
_MOST_CHANGES = 40
_MOST_ENTRIES = 200
_POINTER = size_of(PTR, {})
_MOVES = frozenset("phi select freeze bitcast addrspacecast ptrtoint inttoptr".split())
_COMPUTES = BINARY_INT | {"trunc", "zext", "sext"}


@dataclass(eq=False)
class _Node:
    """Blocks of memory of one shape.

    scalars  floats and pointers that are read or written: address, size, kind
    fields   what the pointer at an address points to
    data     the data of reference-counted objects
    header   whether all blocks begin with a header (O3 of `addresses`); None: no block is known yet
    """

    number: int
    merged: _Node | None = None
    open: bool = False
    header: bool | None = None
    scalars: set[tuple[Address, int, Kind]] = field(default_factory=lambda: set())
    fields: dict[Address, _Cell] = field(default_factory=lambda: {})
    data: _Cell | None = None


@dataclass(eq=False)
class _Cell:
    """What a pointer may point to: addresses in a node; none as long as nothing is known of it.

    changes    how often addresses were added
    """

    node: _Node
    addresses: set[Address] = field(default_factory=lambda: set())
    changes: int = 0


class Shapes:
    """The nodes of a module, found by iteration to a fixpoint.

    callee    the function of the module that a call goes to
    outside   the pointer parameters to memory that the caller has filled
    numbers   the pointer parameters to arrays without pointers, and the layout of their elements
    """

    def __init__(
        self,
        module: Module,
        calls: EngineCalls,
        callee: Callable[[Instruction], Function | None],
        outside: Iterable[Argument],
        numbers: Mapping[Argument, Declared],
    ) -> None:
        self._module, self._calls, self._callee = module, calls, callee
        self._only_counted = only_counted(module)
        self._cells: dict[Value | str, _Cell] = {}
        self._loads: dict[Value | str, set[Instruction]] = {}
        self._count = 0
        self._changed = True
        for argument in outside:
            self._unknown(argument)
        for argument, declared in numbers.items():
            self._filled(self._of(argument), declared)
        self._solve()

    # --- answers ---

    def may_hold(self, pointer: Value, t: Type, kind: Kind) -> bool:
        """Whether memory at a pointer to a `t` may hold (a part of) a float, or of a pointer."""
        cell = self._cells.get(pointer)
        if cell is None or not cell.addresses:
            return True
        node, size = _find(cell.node), self._size(t)
        return node.open or any(
            k == kind and _meet(node, address, size, scalar, length)
            for scalar, length, k in node.scalars
            for address in cell.addresses
        )

    def may_be_bits(self, value: Value) -> bool:
        """Whether an integer may have been read from memory that holds floats."""
        loads = self._loads.get(value)
        return loads is None or any(self.may_hold(i.operands[0], i.type, "float") for i in loads)

    # --- the fixpoint ---

    def _solve(self) -> None:
        functions = self._module.defined()
        named = {
            o.name
            for f in functions
            for i in f.instructions()
            for o in i.operands
            if isinstance(o, GlobalRef)
        }
        for f in functions:
            if f.name in named:
                for argument in f.arguments:
                    self._unknown(argument)
        while self._changed:
            self._changed = False
            for f in functions:
                for i in f.instructions():
                    self._visit(f, i)
            self._spread()

    def _spread(self) -> None:
        """H3: nodes reachable from an open node are open."""
        nodes = {_find(cell.node) for cell in self._cells.values()}
        work = [n for n in nodes if n.open or (n.data is not None and (n.fields or n.scalars))]
        seen: set[_Node] = set()
        while work:
            node = _find(work.pop())
            if node in seen:
                continue
            seen.add(node)
            self._open(node)
            work += [cell.node for cell in node.fields.values()]
            work += [node.data.node] if node.data is not None else []

    # --- nodes and cells ---

    def _fresh(self) -> _Cell:
        self._count += 1
        return _Cell(_Node(self._count))

    def _of(self, key: Value | str) -> _Cell:
        if key not in self._cells:
            self._cells[key] = self._fresh()
        return self._cells[key]

    def _cell(self, value: Value) -> _Cell | None:
        """The cell of an operand; None for one that is not known to be a pointer."""
        if isinstance(value, GlobalRef):
            return self._unknown(value.name)
        if isinstance(value, Constant):
            return self._unknown(value.globals[0]) if value.globals else None
        return self._cells.get(value)

    def _unknown(self, key: Value | str) -> _Cell:
        cell = self._of(key)
        self._open(cell.node)
        self._reach(cell, [ANYWHERE])
        return cell

    def _filled(self, cell: _Cell, declared: Declared) -> None:
        """A pointer leads to an array of elements; which of them it points to is not known."""
        self._reach(cell, [offsets_of(0, declared.period, None)])
        floats: set[tuple[Address, int, Kind]] = {
            (offsets_of(offset, declared.period, None), self._size(t), "float")
            for offset, t in declared.floats
        }
        self._note(cell.node, floats)

    def _open(self, node: _Node) -> None:
        node = _find(node)
        if not node.open:
            node.open = self._changed = True

    def _open_all(self, values: Iterable[Value]) -> None:
        for value in values:
            if (cell := self._cell(value)) is not None:
                self._open(cell.node)

    def _reach(self, cell: _Cell, addresses: Iterable[Address]) -> None:
        """A pointer may have these addresses, too."""
        for address in list(addresses):
            if not any(covers(known, address) for known in cell.addresses):
                cell.addresses = {
                    known for known in cell.addresses if not covers(address, known)
                } | {address}
                cell.changes += 1
                self._changed = True
        # a pointer that is decremented in a loop would get a lower address in every round
        if len(cell.addresses) > _MOST_ADDRESSES or cell.changes > _MOST_CHANGES:
            cell.addresses = {reduce(widest, cell.addresses, next(iter(cell.addresses)))}

    def _flow(self, source: _Cell, target: _Cell) -> None:
        """`target` may point to whatever `source` points to."""
        self._unify(source.node, target.node)
        self._reach(target, source.addresses)

    def _unify(self, a: _Node, b: _Node) -> None:
        a, b = sorted((_find(a), _find(b)), key=lambda node: node.number)
        if a is b:
            return
        self._changed = True
        b.merged = a
        a.open |= b.open
        a.header = b.header if a.header is None else a.header and b.header is not False
        a.scalars |= b.scalars
        for address, cell in b.fields.items():
            # merging one field may merge this node with others
            known = _find(a).fields.setdefault(address, cell)
            self._same(cell, known)
        if b.data is not None:
            a = _find(a)
            a.data = a.data or b.data
            self._same(b.data, a.data)
        self._limit(_find(a))

    def _same(self, left: _Cell, right: _Cell) -> None:
        self._flow(left, right)
        self._flow(right, left)

    def _limit(self, node: _Node) -> None:
        if len(node.fields) + len(node.scalars) > _MOST_ENTRIES:
            self._open(node)

    def _size(self, t: Type) -> int:
        return size_of(t, self._module.types)

    # --- instructions ---

    def _visit(self, f: Function, i: Instruction) -> None:
        match i.opcode:
            case "alloca":
                self._allocated_here(i, header=False)
            case "load":
                self._load(i)
            case "store":
                self._store(i)
            case "getelementptr":
                self._step(i)
            case "call":
                self._call(i)
            case "ret":
                for value in i.operands:
                    self._hand_on(value, f.name + "()")
            case _:
                self._make(i)

    def _make(self, i: Instruction) -> None:
        """Visit an instruction that computes a value from its operands."""
        if i in self._only_counted:
            # the objects that are released at one place may have data of any kind
            return
        if i.opcode in _MOVES:
            self._move(i, i.operands[1:] if i.opcode == "select" else i.operands)
        elif i.opcode in _COMPUTES:
            self._compute(i)
        elif i.opcode != "icmp":
            # aggregates, and opcodes that are not interpreted
            self._unknown_call(i)

    def _move(self, i: Instruction, operands: Iterable[Value]) -> None:
        """Visit an instruction whose result is one of its operands."""
        for operand in operands:
            self._hand_on(operand, i)
        if i.opcode == "inttoptr" and i not in self._cells:
            self._unknown(i)

    def _hand_on(self, value: Value, key: Value | str) -> None:
        cell = self._cell(value)
        if cell is not None:
            self._flow(cell, self._of(key))
        if value in self._loads:
            self._come_from(key, self._loads[value])

    def _come_from(self, key: Value | str, loads: Iterable[Instruction]) -> None:
        known = self._loads.setdefault(key, set())
        if not known.issuperset(loads):
            known.update(loads)
            self._changed = True

    def _compute(self, i: Instruction) -> None:
        """Integer arithmetic: the result may be an address in the memory of an operand."""
        for operand in i.operands:
            if operand in self._loads:
                self._come_from(i, self._loads[operand])
            cell = self._cell(operand)
            if cell is not None and cell.addresses:
                self._unify(cell.node, self._of(i).node)
                self._reach(self._of(i), [ANYWHERE])

    def _allocated_here(self, i: Instruction, *, header: bool) -> None:
        if i not in self._cells:
            self._of(i).node.header = header
            self._reach(self._of(i), [START])

    def _step(self, i: Instruction) -> None:
        cell = self._cell(i.operands[0])
        if cell is not None:
            steps = steps_of(i, self._module.types)
            self._unify(cell.node, self._of(i).node)
            self._reach(self._of(i), [moved(a, *step) for a in cell.addresses for step in steps])

    def _load(self, i: Instruction) -> None:
        cell = self._access(i.operands[0], i.type)
        if cell is None or i.type.is_float:
            return
        self._come_from(i, [i])
        if not (i.type.is_pointer or i.type == I64):
            return
        for target in self._fields_at(cell):
            self._flow(target, self._of(i))
        if _find(cell.node).open and i.type.is_pointer:
            self._unknown(i)

    def _store(self, i: Instruction) -> None:
        value, pointer = i.operands
        cell, stored = self._access(pointer, value.type), self._cell(value)
        if cell is None:
            return
        if stored is not None:
            for address in set(cell.addresses):
                self._flow(stored, self._field(cell, address))
        for load in set(self._loads.get(value, ())):
            origin = self._cell(load.operands[0])
            if origin is not None:
                self._copy(origin, cell, self._size(load.type))

    def _access(self, pointer: Value, t: Type) -> _Cell | None:
        """Note a load or store; returns the cell of the pointer."""
        cell = self._cell(pointer)
        if cell is None:
            return None
        if t.is_float or t.is_pointer:
            kind: Kind = "float" if t.is_float else "pointer"
            self._note(cell.node, {(address, self._size(t), kind) for address in cell.addresses})
        elif not t.is_int:
            self._open(cell.node)
        return cell

    def _note(self, node: _Node, scalars: set[tuple[Address, int, Kind]]) -> None:
        node = _find(node)
        if not node.scalars.issuperset(scalars):
            node.scalars |= scalars
            self._changed = True
            self._limit(node)

    def _fields_at(self, cell: _Cell) -> list[_Cell]:
        node = _find(cell.node)
        return [
            target
            for at, target in list(node.fields.items())
            if any(_meet(node, at, _POINTER, address, _POINTER) for address in cell.addresses)
        ]

    def _field(self, cell: _Cell, address: Address) -> _Cell:
        node = _find(cell.node)
        if address not in node.fields:
            node.fields[address] = self._fresh()
            self._changed = True
            self._limit(node)
        return node.fields[address]

    def _copy(self, origin: _Cell, target: _Cell, size: int | None) -> None:
        """Copy bytes, with all that is known about them, from one address to another."""
        source = _find(origin.node)
        for start in set(origin.addresses):
            for end in set(target.addresses):
                for address, cell in list(source.fields.items()):
                    if _is_copied(source, address, _POINTER, start, size):
                        self._flow(cell, self._field(target, shifted(address, start, end)))
                self._note(
                    target.node,
                    {
                        (shifted(address, start, end), length, kind)
                        for address, length, kind in _find(source).scalars
                        if _is_copied(source, address, length, start, size)
                    },
                )

    # --- calls ---

    def _call(self, i: Instruction) -> None:
        function = self._callee(i)
        effect = effect_of(i.callee_name)
        if function is not None:
            for operand, argument in zip(i.operands, function.arguments, strict=True):
                self._hand_on(operand, argument)
            self._give_back(i, function.name + "()")
        elif (marked := self._calls.marked_effect(i)) is not None:
            self._marked_call(i, marked)
        elif effect is None:
            if not self._calls.is_arithmetic(i):
                self._unknown_call(i)
        else:
            self._known_call(i, effect)

    def _give_back(self, i: Instruction, key: str) -> None:
        if key in self._cells:
            self._flow(self._cells[key], self._of(i))
        self._come_from(i, self._loads.get(key, ()))

    def _known_call(self, i: Instruction, effect: CallEffect) -> None:
        if effect.allocates:
            self._allocated_here(i, header=effect.allocates.header)
        elif effect.gives_data:
            self._data(i)
        elif effect.returns is not None:
            self._hand_on(i.operands[effect.returns], i)
        elif i.type.is_pointer:
            self._unknown_call(i)
        elif effect.reads and effect.writes and len(i.operands) > 1:
            origin = self._cell(i.operands[effect.reads[0]])
            target = self._cell(i.operands[effect.writes[0]])
            if origin is None or target is None:
                return
            if _find(origin.node).open:
                self._open(target.node)
            else:
                exact = memory_intrinsic(i) is not None and len(i.operands) > 2
                self._copy(origin, target, integer_of(i.operands[2]) if exact else None)

    def _data(self, i: Instruction) -> None:
        """Visit a call that returns the data of a reference-counted object."""
        cell = self._cell(i.operands[0])
        if cell is None:
            return
        node = _find(cell.node)
        if node.data is None:
            node.data = self._fresh()
            self._changed = True
        data = _find(node.data.node)
        if node.header is not None and (data.header is None or data.header > node.header):
            data.header, self._changed = node.header, True
        self._reach(node.data, [START])
        self._flow(node.data, self._of(i))

    def _marked_call(self, i: Instruction, effect: CallEffect) -> None:
        """Visit a marked call; memory that it only reads does not change."""
        if effect.hands_out or effect.follows or i.type.is_pointer:
            self._unknown_call(i)
        else:
            self._open_all(i.operands[k] for k in effect.writes)

    def _unknown_call(self, i: Instruction) -> None:
        self._open_all(i.operands)
        if i.type.is_pointer:
            self._unknown(i)


@dataclass(frozen=True)
class ShapesIn:
    """The answers of `shapes` for a function, or for a copy of it.

    values   the values of the original function by name; a copy has values of the same names
    """

    shapes: Shapes
    values: Mapping[str, Value]

    def may_hold(self, pointer: Value, t: Type, kind: Kind) -> bool:
        """`Shapes.may_hold`, of a value of the copy."""
        return self.shapes.may_hold(self._original(pointer), t, kind)

    def may_be_bits(self, value: Value) -> bool:
        """`Shapes.may_be_bits`, of a value of the copy."""
        return self.shapes.may_be_bits(self._original(value))

    def _original(self, value: Value) -> Value:
        if isinstance(value, Instruction | Argument) and value.name is not None:
            return self.values.get(value.name, value)
        return value


def _find(node: _Node) -> _Node:
    """The node that a node was merged into; itself if it was not."""
    while node.merged is not None:
        if node.merged.merged is not None:
            node.merged = node.merged.merged
        node = node.merged
    return node


def _meet(node: _Node, address: Address, size: int, other: Address, other_size: int) -> bool:
    return address.may_overlap(size, other, other_size, header=node.header is not False)


def _is_copied(
    node: _Node, address: Address, length: int, start: Address, size: int | None
) -> bool:
    """Whether a copy of `size` bytes from `start` may move `length` bytes at `address`."""
    if size is not None:
        return _meet(node, start, size, address, length)
    if address.stride or start.stride:
        return node.header is False or not start.lies_after(address, length)
    return address.offset + length > start.offset
