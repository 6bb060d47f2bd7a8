"""Points-to sets: what each pointer of a function may point to, by iteration to a fixpoint.

Needs       a Function in normal form; its ControlFlow; the effects of marked calls; the summaries
            of the functions of the module; what the caller declares of argument memory
Gives       `Solver`: points_to (of values), contents (what pointers stored in an object point to),
            copy_sources and integer_sources (per object, those whose bytes, or integers that may
            be pointers, are moved to it), called, followed
Invariants  M1 of `facts`: every address a pointer may hold at run time lies in one of its objects
Source      Andersen (1994), inclusion-based points-to analysis: flow-insensitive; one contents set
            per object, and in memory allocated here one per offset, where offsets are known
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.addresses import address_of
from activerules.ir.analysis.memory.called import CalledMemory, called_memory
from activerules.ir.analysis.memory.callee import Summaries
from activerules.ir.analysis.memory.declared import FromCaller, Target
from activerules.ir.analysis.memory.objects import (
    RUNTIME,
    SAME_OBJECT,
    UNKNOWN,
    MemoryObject,
    is_counted,
    made_by,
)
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import (
    BINARY_INT,
    Argument,
    Constant,
    GlobalRef,
    Instruction,
    Value,
    backward_slice,
)
from activerules.ir.llvm.types import I64, PTR, IntType, NamedTypes, size_of
from activerules.ir.normal.effects import CallEffect, effect_of

# instructions whose result is a pointer computed or stored elsewhere
HANDED_ON = frozenset({"load", "phi", "select", "freeze"})

# opcodes whose result points into the memory of their operands; a slice of these
_SAME_MEMORY = {
    **dict.fromkeys(SAME_OBJECT, (0, 1)),
    "phi": (0, None),
    "select": (1, None),
}

_NOWHERE = {"null", "undef", "poison"}
_CARRIES_ADDRESS = BINARY_INT | {"phi", "select", "trunc", "zext", "sext", "freeze"}


def source_loads(value: Value) -> list[Instruction]:
    """The loads a value comes from through phi, select, freeze and arithmetic on its sign bit."""

    def goes_on(i: Instruction) -> bool:
        return i.opcode in {"phi", "select", "freeze"} or _changes_sign(i)

    return [i for i in backward_slice(value, goes_on) if i.opcode == "load"]


def _changes_sign(i: Instruction) -> bool:
    """Whether integer arithmetic changes only the highest bit: the sign of a float."""
    if i.opcode not in {"and", "or", "xor"} or not isinstance(i.type, IntType):
        return False
    sign = 1 << (i.type.bits - 1)
    masks = {number & (2 * sign - 1) for o in i.operands if (number := integer_of(o)) is not None}
    return bool(masks & ({sign - 1} if i.opcode == "and" else {sign}))


def objects_of_constant(value: Value) -> frozenset[MemoryObject]:
    """The globals a constant pointer refers to; none for null, undef and poison."""
    if isinstance(value, GlobalRef):
        return frozenset([MemoryObject("global", value.name)])
    if isinstance(value, Constant):
        return frozenset(MemoryObject("global", name) for name in value.globals)
    return frozenset()


_Objects = Mapping[MemoryObject, Iterable[MemoryObject]]
Tables = Mapping[MemoryObject, frozenset[MemoryObject]]
"""Per constant global, what pointers in it point to: functions, and other globals."""


@dataclass(frozen=True)
class FromModule:
    """What is known of the module of a function.

    calls     how calls are interpreted
    callees   the summaries of the functions of the module
    tables    what pointers in constant globals point to
    """

    types: NamedTypes
    calls: EngineCalls
    callees: Summaries
    tables: Tables


def pointees_in(
    memory: MemoryObject,
    contents: _Objects,
    copy_sources: _Objects,
    integer_sources: _Objects,
    tables: Tables,
) -> set[MemoryObject]:
    """What pointers in `memory` may point to, including those copied there from other memory."""
    pointees: set[MemoryObject] = set()
    for source in closure(
        [memory], lambda o: (*copy_sources.get(o, ()), *integer_sources.get(o, ()))
    ):
        pointees.update(contents.get(source, ()))
        if source in tables:
            pointees.update(tables[source])
        elif source.kind in {"argument", "loaded", "global"}:
            pointees.add(source if source.kind == "loaded" else MemoryObject("loaded", source))
        elif source == RUNTIME:
            pointees.add(RUNTIME)
    return pointees


def reached_by(
    call: Instruction,
    objects: Callable[[Value], Iterable[MemoryObject]],
    pointees: Callable[[MemoryObject], Iterable[MemoryObject]],
) -> set[MemoryObject]:
    """All memory reachable from the operands of a call."""
    addresses = (o for o in call.operands if o.type.is_pointer or o.type.is_int)
    return closure((o for address in addresses for o in objects(address)), pointees)


def _is_shorter(o: MemoryObject, least: int) -> bool:
    """Whether an object ends before `least` bytes from its start."""
    made = made_by(o) if least > 0 else None
    if made is None or not made.counted or made.header or len(made.size) != 1:
        return False
    assert isinstance(o.key, Instruction)
    length = integer_of(o.key.operands[made.size[0]])
    return length is not None and length <= least


class Solver:
    """Working state of the fixpoint iteration; discarded once the facts are frozen."""

    def __init__(self, flow: ControlFlow, caller: FromCaller, module: FromModule) -> None:
        self.flow, self.disjoint, self.targets = flow, caller.disjoint, caller.targets
        self.named_types, self.calls = module.types, module.calls
        self.callees, self.tables = module.callees, module.tables
        self.starts_of: dict[Instruction, Target] = {}
        self.called: dict[Instruction, CalledMemory] = {}
        self.followed: dict[Instruction, frozenset[MemoryObject]] = {}
        self.points_to: dict[Value, set[MemoryObject]] = {}
        self.contents: dict[MemoryObject, set[MemoryObject]] = {}
        self.copy_sources: dict[MemoryObject, set[MemoryObject]] = {}
        self.integer_sources: dict[MemoryObject, set[MemoryObject]] = {}
        self.integers_anywhere: set[MemoryObject] = set()
        self.fields: dict[tuple[MemoryObject, int | None], set[MemoryObject]] = {}
        self.changed = False

    def point(self, value: Value, objects: Iterable[MemoryObject]) -> None:
        """`value` may point to `objects`, too."""
        self._grow(self.points_to.setdefault(value, set()), objects)

    def add_contents(
        self, memory: MemoryObject, objects: Iterable[MemoryObject], offset: int | None = None
    ) -> None:
        """A pointer in `memory` may point to `objects`, too: the one at `offset`, or any (None)."""
        objects = set(objects)
        self._grow(self.contents.setdefault(memory, set()), objects)
        self._grow(self.fields.setdefault((memory, offset), set()), objects)

    def _grow(self, known: set[MemoryObject], more: Iterable[MemoryObject]) -> None:
        before = len(known)
        known.update(more)
        self.changed |= len(known) != before

    def objects(self, value: Value) -> set[MemoryObject]:
        """What `value` may point to, as far as is known so far."""
        return self.points_to.get(value) or set(objects_of_constant(value))

    def pointees(self, memory: MemoryObject) -> set[MemoryObject]:
        """What pointers stored in `memory` may point to."""
        return pointees_in(
            memory, self.contents, self.copy_sources, self.integer_sources, self.tables
        )

    def copy(self, target: MemoryObject, source: MemoryObject) -> None:
        """Bytes of `source`, which may include pointers, may be copied to `target`."""
        if target != source:
            self._grow(self.copy_sources.setdefault(target, set()), {source})
        if self.contents.get(source):
            self.add_contents(target, self.contents[source])

    def solve(self) -> None:
        """Visit all instructions until nothing changes."""
        for holder, pointers in self.targets.items():
            self.add_contents(holder, (target.memory for target in pointers.at.values()))
        self.changed = True
        while self.changed:
            self.changed = False
            for block in self.flow.order:
                for instruction in block.instructions:
                    self._visit(instruction)

    def _visit(self, i: Instruction) -> None:
        match i.opcode:
            case "alloca":
                self.point(i, {MemoryObject("alloca", i)})
            case "load" if i.type.is_pointer:
                self._load(i)
            case "store" if i.operands[0].type.is_pointer:
                self._store(i)
            case "store" if i.operands[0].type == I64:
                self._store_integer(i)
            case "call":
                self._visit_call(i)
            case _:
                self._carry(i)

    def _carry(self, i: Instruction) -> None:
        """Visit an instruction that computes an address, or an integer, from others."""
        match i.opcode:
            case "ptrtoint":
                self.point(i, self.objects(i.operands[0]))
            case "inttoptr":
                self.point(i, self.objects(i.operands[0]) or {UNKNOWN})
            case "extractvalue" | "va_arg" if i.type.is_pointer:
                self.point(i, {UNKNOWN})
            case opcode if i.type.is_pointer:
                first, end = _SAME_MEMORY.get(opcode, (0, 0))
                for operand in i.operands[first:end]:
                    self.point(i, self.objects(operand))
                if opcode in HANDED_ON:
                    self._choose(i, i.operands[first:end])
            case opcode if i.type.is_int and opcode in _CARRIES_ADDRESS:
                self._integer(i)
            case _:
                pass

    def _choose(self, i: Instruction, operands: Sequence[Value]) -> None:
        """A pointer merged from declared pointers to one memory, or null, is one itself."""
        pointers = [o for o in operands if not (isinstance(o, Constant) and o.text in _NOWHERE)]
        starts = {self.starts_of.get(o) if isinstance(o, Instruction) else None for o in pointers}
        target = starts.pop() if len(starts) == 1 else None
        self.changed |= target is not self.starts_of.get(i)
        if target is None:
            self.starts_of.pop(i, None)
        else:
            self.starts_of[i] = target

    def _load(self, i: Instruction) -> None:
        for memory in self._within(i.operands[0]):
            offset = self._offset_in_declared(memory, i.operands[0])
            if offset is None:
                self.point(i, self._inside_at(memory, i.operands[0]))
            elif offset in self.targets[memory].at:
                self.starts_of[i] = self.targets[memory].at[offset]
                self.point(i, {self.starts_of[i].memory})
            else:
                self.point(i, {MemoryObject("loaded", memory)})

    def _within(self, pointer: Value) -> list[MemoryObject]:
        """The objects a pointer may point to that are long enough for its offset.

        One struct often holds pointers to several kinds of memory, and a pointer loaded from it
        may point to any of them; the offset that is added to it rules out the short ones.
        """
        address = address_of(pointer, self.named_types)
        stored = isinstance(address.base, Instruction) and address.base.opcode in HANDED_ON
        least = address.offset if stored and address.stride == 0 and not address.through else 0
        return [o for o in self.objects(pointer) if not _is_shorter(o, least)]

    def _offset_in_declared(self, memory: MemoryObject, pointer: Value) -> int | None:
        """The offset of a pointer in (one period of) memory with declared pointers; None where it
        varies, or in other memory.
        """
        pointers = self.targets.get(memory)
        if pointers is None or not pointers.at:
            return None
        address = address_of(pointer, self.named_types)
        base = self.starts_of.get(address.base) if isinstance(address.base, Instruction) else None
        at_start = isinstance(address.base, Argument) or (
            base is not None and base.is_start(address, memory)
        )
        return pointers.offset_of(address) if at_start else None

    def _inside_at(self, memory: MemoryObject, pointer: Value) -> set[MemoryObject]:
        """What the pointer that is stored in `memory` at `pointer` may point to."""
        offset = self._offset_in(memory, pointer)
        if offset is None or memory in self.copy_sources or memory in self.integers_anywhere:
            return self.pointees(memory)
        fields = self.fields
        return fields.get((memory, offset), set()) | fields.get((memory, None), set())

    def _store(self, i: Instruction) -> None:
        for memory in self._within(i.operands[1]):
            self.add_contents(
                memory, self.objects(i.operands[0]), self._offset_in(memory, i.operands[1])
            )

    def _offset_in(self, memory: MemoryObject, pointer: Value) -> int | None:
        """The offset of a pointer in memory allocated here, if it is exact and aligned."""
        if memory.kind not in {"alloca", "allocation"}:
            return None
        address = address_of(pointer, self.named_types)
        is_start = address.base is memory.key and address.through == is_counted(memory)
        exact = is_start and address.stride == 0 and address.offset % size_of(PTR, {}) == 0
        return address.offset if exact else None

    def _store_integer(self, i: Instruction) -> None:
        """An integer that was loaded, or computed from an address, may be a pointer."""
        for target in self.objects(i.operands[1]):
            self.add_contents(target, self.points_to.get(i.operands[0], ()))
        for load in source_loads(i.operands[0]):
            if load.type == I64:
                sources = {o for o in self.objects(load.operands[0]) if self._has_pointer(o, load)}
                for target in self.objects(i.operands[1]) if sources else ():
                    self._grow(self.integer_sources.setdefault(target, set()), sources)
                    self._carry_to(target, i.operands[1], sources, load)

    def _carry_to(
        self,
        target: MemoryObject,
        pointer: Value,
        sources: Iterable[MemoryObject],
        load: Instruction,
    ) -> None:
        """Note at which offset of `target` the integer, which may be a pointer, is stored."""
        offset = self._offset_in(target, pointer)
        if offset is None:
            self._grow(self.integers_anywhere, {target})
        else:
            for source in sources:
                self.add_contents(target, self._inside_at(source, load.operands[0]), offset)

    def _has_pointer(self, memory: MemoryObject, load: Instruction) -> bool:
        """Whether an integer that is loaded may be a pointer: not if no pointer was stored at that
        offset, or if it is declared to be an integer.
        """
        pointer = load.operands[0]
        if self._is_declared_integer(memory, pointer):
            return False
        known = self._offset_in(memory, pointer) is not None
        return not known or bool(self._inside_at(memory, pointer))

    def _is_declared_integer(self, memory: MemoryObject, pointer: Value) -> bool:
        offset = self._offset_in_declared(memory, pointer)
        return offset is not None and offset in self.targets[memory].integers

    def _integer(self, i: Instruction) -> None:
        """An integer computed from an address points to the same objects."""
        for operand in i.operands:
            if self.points_to.get(operand):
                self.point(i, self.points_to[operand])

    def _visit_call(self, call: Instruction) -> None:
        marked = self.calls.marked_effect(call)
        if marked is not None:
            self._marked_call(call, marked)
            return
        if self.callees.is_derived(call):
            self._derived_call(call)
            return
        effect = effect_of(call.callee_name)
        if effect is None:
            self._unknown_call(call)
        else:
            self._known_call(call, effect)

    def _known_call(self, call: Instruction, effect: CallEffect) -> None:
        if effect.hands_over:
            for holder in self.objects(call.operands[0]):
                for source in self.objects(call.operands[1]):
                    self.add_contents(holder, self.contents.get(source, ()))
        elif effect.allocates:
            self.point(call, {MemoryObject("allocation", call)})
        elif effect.returns is not None:
            self.point(call, self.objects(call.operands[effect.returns]))
        elif effect.opaque and call.type.is_pointer:
            self.point(call, {RUNTIME})
        elif effect.reads and effect.writes and len(call.operands) > 1:
            self._copy(call.operands[effect.reads[0]], call.operands[effect.writes[0]])

    def _copy(self, origin: Value, destination: Value) -> None:
        for source in self.objects(origin):
            for target in self.objects(destination):
                self.copy(target, source)

    def _marked_call(self, call: Instruction, effect: CallEffect) -> None:
        """A marked call stores pointers to new memory in its result, the struct at operand 0. It
        may replace pointers in containers by any it was given, and by pointers to new memory.
        """
        fresh = MemoryObject("result", call)
        returned = {fresh}
        if effect.follows or effect.hands_out:
            anything = {fresh, *reached_by(call, self.objects, self.pointees)}
            containers = {o for k in effect.follows for o in self.objects(call.operands[k])}
            self.followed[call] = frozenset(closure(containers, self.pointees))
            for memory in self.followed[call] if effect.replaces_pointers else ():
                if self.contents.get(memory) is not None:
                    self.add_contents(memory, anything)
            if effect.hands_out:
                returned = anything
                self.add_contents(fresh, returned)
        for memory in self.objects(call.operands[0]):
            self.add_contents(memory, returned)

    def _derived_call(self, call: Instruction) -> None:
        called = called_memory(call, self.objects, self.pointees, self.callees, self.disjoint)
        self.called[call] = called
        for target, pointee in called.summary.stores:
            for memory in called.at(target):
                self.add_contents(memory, called.at(pointee))
        for target, origin in called.summary.copies:
            for memory in called.at(target):
                for source in called.at(origin):
                    self.copy(memory, source)
        if called.summary.everything:
            self._unknown_call(call)
        if call.type.is_pointer:
            self.point(call, (o for p in called.summary.returns for o in called.at(p)))

    def _unknown_call(self, call: Instruction) -> None:
        reached = reached_by(call, self.objects, self.pointees)
        for memory in reached:
            if self.contents.get(memory) is not None or memory.kind == "alloca":
                self.add_contents(memory, reached)
        if call.type.is_pointer:
            self.point(call, reached | {UNKNOWN})
