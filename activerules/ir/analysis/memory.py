"""Memory: what a pointer may point to, and whether what it points to may change later.

Needs       a Function in normal form; its ControlFlow; which pointer parameters share memory
Gives       MemoryFacts, frozen: objects(pointer), overwritten(load), may_alias(p, q), writes
Invariants  M1  every address a pointer may hold at run time lies in one of its objects
            M2  two pointers that may hold the same address share an object, or an object of one
                `may_overlap` an object of the other
            M3  `overwritten(i, p)` is False only if no path from `i` to the return writes to what
                `p` points to
Source      Andersen (1994), inclusion-based points-to analysis: flow-insensitive; one contents set
            per object, and in memory of the function's own one per offset, where offsets are known

Which objects there are is said in `analysis/objects.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from activerules.ir.analysis.called import CalledMemory, called_memory
from activerules.ir.analysis.callee import Summaries
from activerules.ir.analysis.declared import Target, Targets
from activerules.ir.analysis.objects import (
    RUNTIME,
    UNKNOWN,
    MemoryObject,
    closure,
    overlap,
    root,
)
from activerules.ir.analysis.places import Multiples, Place, place_of
from activerules.ir.cfg import ControlFlow
from activerules.ir.constants import integer_of
from activerules.ir.model import (
    BINARY_INT,
    Argument,
    Block,
    Constant,
    Function,
    GlobalRef,
    Instruction,
    Value,
    behind,
)
from activerules.ir.runtime_calls import CallEffect, effect_of
from activerules.ir.types import I64, PTR, IntType, NamedTypes, size_of


@dataclass(frozen=True)
class Write:
    """An instruction that may write memory: through `pointers`, in `objects`, or anywhere
    (`everything`).
    """

    instruction: Instruction
    pointers: tuple[Value, ...]
    size: int | None
    everything: bool = False
    objects: frozenset[MemoryObject] = frozenset()


# what takes a pointer on from where it was put
_HANDED_ON = frozenset({"load", "phi", "select", "freeze"})


def _made_by(o: MemoryObject) -> CallEffect | None:
    if o.kind != "allocation" or not isinstance(o.key, Instruction):
        return None
    return effect_of(o.key.callee_name)


def is_counted(o: MemoryObject) -> bool:
    """Whether an object is allocated as a MemInfo, with its data somewhere behind it."""
    effect = _made_by(o)
    return effect is not None and effect.counted


def has_header(o: MemoryObject) -> bool:
    """Whether an object is known to be a header with items behind it; its data may move."""
    effect = _made_by(o)
    return effect is not None and effect.header


# the operands a pointer points into the memory of, as a slice
_SAME_MEMORY = {
    **dict.fromkeys(("getelementptr", "bitcast", "addrspacecast", "freeze"), (0, 1)),
    "phi": (0, None),
    "select": (1, None),
}
_CARRIES_ADDRESS = BINARY_INT | {"phi", "select", "trunc", "zext", "sext", "freeze"}


@dataclass(frozen=True, eq=False)
class MemoryFacts:
    """Frozen result of `analyse_memory`; the invariants are in the module docstring.

    `called` are the calls of functions of the module, `followed` what marked calls reach through
    containers; `clobbered` tells the objects that may change after the return, so that everything
    read from them counts as overwritten; `copied` are the objects from which bytes of unknown type
    are copied to an object, `carried` those from which integers are, which may be pointers;
    `starts_of` are the loads of pointers the caller declared (`analysis/declared.py`).
    """

    points_to: dict[Value, frozenset[MemoryObject]]
    contents: dict[MemoryObject, frozenset[MemoryObject]]
    writes: tuple[Write, ...]
    flow: ControlFlow
    disjoint: bool
    named_types: NamedTypes
    split: bool
    _reach: dict[tuple[Block, Block | None], set[Block]]
    called: Mapping[Instruction, CalledMemory] = field(default_factory=lambda: {})
    followed: Mapping[Instruction, frozenset[MemoryObject]] = field(default_factory=lambda: {})
    clobbered: Callable[[MemoryObject], bool] = lambda memory: False
    copied: Mapping[MemoryObject, frozenset[MemoryObject]] = field(default_factory=lambda: {})
    carried: Mapping[MemoryObject, frozenset[MemoryObject]] = field(default_factory=lambda: {})
    targets: Targets = field(default_factory=lambda: {})
    multiples: Multiples = field(default_factory=lambda: {})
    starts_of: Mapping[Instruction, Target] = field(default_factory=lambda: {})

    def objects(self, pointer: Value) -> frozenset[MemoryObject]:
        """What `pointer` may point to; empty for null and undef."""
        return self.points_to.get(pointer) or objects_of_constant(pointer)

    def inside(self, memory: MemoryObject) -> frozenset[MemoryObject]:
        """What pointers stored in `memory` may point to."""
        return frozenset(_inside(memory, self.contents, self.copied, self.carried))

    def copied_with(self, memory: MemoryObject) -> frozenset[MemoryObject]:
        """The objects whose bytes may come from this one by copies, or go there; itself, too."""
        return frozenset(closure([memory], lambda o: self._copied_both_ways.get(o, ())))

    @cached_property
    def _copied_both_ways(self) -> dict[MemoryObject, set[MemoryObject]]:
        found: dict[MemoryObject, set[MemoryObject]] = {}
        for target, sources in self.copied.items():
            for source in sources:
                found.setdefault(target, set()).add(source)
                found.setdefault(source, set()).add(target)
        return found

    def reached(self, call: Instruction) -> frozenset[MemoryObject]:
        """All memory a function can get at.

        By the pointers it is called with, by globals, and by pointers stored outside this function.
        """
        return frozenset(_reached(call, self.objects, self.inside)) | self._exposed

    def behind(self, pointer: Value) -> frozenset[MemoryObject]:
        """All memory that can be got at by a pointer."""
        return frozenset(closure(self.objects(pointer), self.inside))

    def read_by(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may read when it is called here."""
        return self.called[call].reads | self._reached_unseen(call)

    def changed_by(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may write when it is called here."""
        return self.called[call].writes | self._reached_unseen(call)

    def _reached_unseen(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module reaches through calls of unknown functions."""
        return self.reached(call) if self.called[call].summary.everything else frozenset()

    @cached_property
    def _exposed(self) -> frozenset[MemoryObject]:
        """Globals, and what is behind pointers stored in memory that this function did not make."""
        written = {o for w in self.writes for o in self.written_by(w)}
        known: set[MemoryObject] = {o for o in self.all_objects | written if o.kind == "global"}
        work = [*known, *(o for o in self.contents if not o.is_local)]
        while work:
            new = self.inside(work.pop()) - known
            known |= new
            work += new
        return frozenset(known)

    @cached_property
    def _callers(self) -> frozenset[MemoryObject]:
        """What the caller can reach after the return: its own memory, and what it was handed."""
        outside = {o for o in self.all_objects if o.kind in {"argument", "loaded"}}
        return frozenset(outside) | self.handed_over(outside)

    def handed_over(self, holders: Iterable[MemoryObject]) -> frozenset[MemoryObject]:
        """What pointers that the function stored in `holders` lead to, directly or not."""
        found: set[MemoryObject] = set()
        work = list(holders)
        while work:
            new = self.contents.get(work.pop(), frozenset()) - found
            found |= new
            work += new
        return frozenset(found)

    def may_overlap(self, a: MemoryObject, b: MemoryObject) -> bool:
        """Whether two objects may share an address."""
        return overlap(a, b, self.disjoint)

    def written_by(self, write: Write) -> frozenset[MemoryObject]:
        """The objects a write may change; those of an unknown call are not listed."""
        return write.objects.union(*map(self.objects, write.pointers))

    def escaping(self, returned: Value | None) -> frozenset[MemoryObject]:
        """Memory this function made that is still reached when it has returned."""
        outside = [o for o in self.contents if not o.is_local]
        start = [*outside, *(self.objects(returned) if returned is not None else ())]
        found = closure(start, lambda o: self.contents.get(o, ()))
        return frozenset(o for o in found if o.kind in {"allocation", "result"})

    def may_alias(self, p: Value, p_size: int | None, q: Value, q_size: int | None) -> bool:
        """Whether `p_size` bytes at `p` may overlap `q_size` bytes at `q` (None: unknown size)."""
        if not any(self.may_overlap(a, b) for a in self.objects(p) for b in self.objects(q)):
            return False
        if p_size is None or q_size is None:
            return True
        a, b = self.place(p), self.place(q)
        if (a.base is b.base and a.through == b.through and self._is_one_address(a.base)) or (
            all(self.starts(a, o) and self.starts(b, o) for o in self.objects(p) | self.objects(q))
        ):
            header = all(map(has_header, self.objects(p) | self.objects(q)))
            return a.may_overlap(p_size, b, q_size, header=header)
        return True

    def place(self, pointer: Value) -> Place:
        """Where in its object a pointer points."""
        return place_of(pointer, self.named_types, self.multiples)

    def starts(self, place: Place, o: MemoryObject) -> bool:
        """Whether offsets of a place count from the start of this object (its data, if counted)."""
        match o.kind:
            case "argument":
                return self._starts_argument(place, o)
            case "allocation" if is_counted(o):
                return place.through or self._leads_to_start(place.base, o)
            case "allocation" if place.base is not o.key:
                return not place.through and self._leads_to_start(place.base, o)
            case _:
                return place.base is o.key and not place.through

    def _starts_argument(self, place: Place, o: MemoryObject) -> bool:
        """Whether a place counts from a parameter of the object, or from a declared pointer (D2).

        Two objects of one private name begin at the same place, or do not overlap.
        """
        (memory, *others) = self.objects(place.base) or (None,)
        if memory is None or others or (memory != o and not _begin_alike(memory, o)):
            return False
        if isinstance(place.base, Instruction):
            target = self.starts_of.get(place.base)
            return target is not None and target.is_start(place, memory)
        return isinstance(place.base, Argument) and (not place.through or memory in self.targets)

    def _leads_to_start(self, base: Value, o: MemoryObject) -> bool:
        """Whether a pointer that was loaded or chosen is one to the start of the data of `o`.

        The object itself has such pointers, too, but nobody does arithmetic on them.
        """
        chosen = isinstance(base, Instruction) and base.opcode in _HANDED_ON
        return chosen and o not in self._has_interior_pointers

    @cached_property
    def _has_interior_pointers(self) -> frozenset[MemoryObject]:
        """Objects with a pointer to their middle that is stored or merged somewhere."""
        found: set[MemoryObject] = set()
        for block in self.flow.order:
            for i in block.instructions:
                if i.opcode == "store" or i.opcode in _HANDED_ON - {"load"}:
                    for p in i.operands[:1] if i.opcode == "store" else i.operands:
                        if self._is_interior(p) or p.type.is_int:
                            found |= self.objects(p)
                elif i.opcode == "call" and effect_of(i.callee_name) is None:
                    found |= self.reached(i)
        return frozenset(found)

    def _is_interior(self, pointer: Value) -> bool:
        if not isinstance(pointer, Instruction) or pointer.opcode in _HANDED_ON:
            return False
        place = self.place(pointer)
        if place.offset or place.stride or pointer.opcode == "inttoptr":
            return True
        return not place.through and place.base is not pointer

    def _is_one_address(self, base: Value) -> bool:
        """Whether offsets from `base` tell addresses of one object apart.

        They do not if it is another address in each iteration.
        """
        if not isinstance(base, Instruction) or self.flow.loop_of(base.owner) is None:
            return True
        return any(o.key is base for o in self.objects(base))

    def overwritten(self, instruction: Instruction, pointer: Value, size: int | None) -> bool:
        """M3: whether memory at `pointer` may change between `instruction` and the return.

        With `split`, until the reverse sweep: the caller may write what it can reach.
        """
        return self.left_to_others(pointer) or any(self.overwriting(instruction, pointer, size))

    def left_to_others(self, pointer: Value) -> bool:
        """Whether callers may write what `pointer` leads to before the reverse sweep runs."""
        objects = self.objects(pointer)
        if self.split and not self._callers.isdisjoint(objects):
            return True
        return any(self.clobbered(root(o)) for o in objects)

    def overwriting(
        self, instruction: Instruction, pointer: Value, size: int | None
    ) -> Iterator[Write]:
        """The writes that may change memory at `pointer` between `instruction` and the return."""
        repeated = self.flow.loop_of(instruction.owner) is not None
        for write in self.hitting(pointer, size):
            if (repeated or write.instruction is not instruction) and self._reaches(
                instruction, write.instruction, pointer
            ):
                yield write

    def group_overwritten(self, call: Instruction, group: int) -> bool:
        """Whether what a callee can reach by a group of pointers may change after the call."""
        called = self.called[call]
        return self._any_overwritten(call, called.direct[group] | called.deep[group])

    def container_overwritten(self, call: Instruction, pointer: Value) -> bool:
        """Whether what a marked call can reach by a pointer may change after it."""
        objects = self.behind(pointer)
        return (self.split and not self._callers.isdisjoint(objects)) or self._any_overwritten(
            call, objects
        )

    def _any_overwritten(self, call: Instruction, objects: Iterable[MemoryObject]) -> bool:
        repeated = self.flow.loop_of(call.owner) is not None
        return any(self.clobbered(root(o)) for o in objects) or any(
            (write.everything or self._overlaps(objects, self.written_by(write)))
            and (repeated or write.instruction is not call)
            and self._follows(call, write.instruction)
            for write in self.writes
        )

    def _overlaps(self, some: Iterable[MemoryObject], others: Iterable[MemoryObject]) -> bool:
        others = tuple(others)
        return any(self.may_overlap(a, b) for a in some for b in others)

    def _follows(self, start: Instruction, end: Instruction) -> bool:
        a, b = start.owner, end.owner
        if a is b and a.instructions.index(start) < a.instructions.index(end):
            return True
        return b in self._reachable(a, None)

    def hitting(self, pointer: Value, size: int | None) -> Iterator[Write]:
        """The writes that may change memory at `pointer`, whenever they happen."""
        return (write for write in self.writes if self.hits(write, pointer, size))

    def hits(self, write: Write, pointer: Value, size: int | None) -> bool:
        """Whether a write may change memory at `pointer`."""
        if write.everything or self._overlaps(self.objects(pointer), write.objects):
            return True
        return any(self.may_alias(pointer, size, q, write.size) for q in write.pointers)

    @cached_property
    def _by_instruction(self) -> dict[Instruction, list[Write]]:
        found: dict[Instruction, list[Write]] = {}
        for write in self.writes:
            found.setdefault(write.instruction, []).append(write)
        return found

    def writes_of(self, instruction: Instruction) -> list[Write]:
        """What an instruction may write."""
        return self._by_instruction.get(instruction, [])

    def _reaches(self, start: Instruction, end: Instruction, pointer: Value) -> bool:
        """Whether `end` can run after `start` on the same object.

        A path through the object's allocation makes a new one.
        """
        fresh = self._allocation_block(pointer)
        a, b = start.owner, end.owner
        if a is b and a.instructions.index(start) < a.instructions.index(end):
            return True
        return b in self._reachable(a, fresh)

    def _allocation_block(self, pointer: Value) -> Block | None:
        objects = self.objects(pointer)
        if len(objects) != 1:
            return None
        (only,) = objects
        if only.kind in {"allocation", "result"} and isinstance(only.key, Instruction):
            return only.key.parent
        return None

    def _reachable(self, start: Block, without: Block | None) -> set[Block]:
        """Blocks entered after leaving `start`; `without` is entered but not passed."""
        key = (start, without)
        if key not in self._reach:
            seen: set[Block] = set()
            work = [start]
            while work:
                block = work.pop()
                for target in block.successors:
                    if target not in seen:
                        seen.add(target)
                        if target is not without:
                            work.append(target)
            if without is not None and without is not start:
                seen.discard(without)
            self._reach[key] = seen
        return self._reach[key]

    @cached_property
    def all_objects(self) -> frozenset[MemoryObject]:
        """Every object that some pointer of the function may point to."""
        return frozenset(o for objects in self.points_to.values() for o in objects) | frozenset(
            self.contents
        ).union(*(c.reached for c in self.called.values()))


def loads_behind(value: Value) -> list[Instruction]:
    """The loads a value comes from, through phi, select, freeze and arithmetic on its sign."""

    def goes_on(i: Instruction) -> bool:
        return i.opcode in {"phi", "select", "freeze"} or _changes_sign(i)

    return [i for i in behind(value, goes_on) if i.opcode == "load"]


def _changes_sign(i: Instruction) -> bool:
    """Whether integer arithmetic acts on the highest bit alone, as that of a float's sign does."""
    if i.opcode not in {"and", "or", "xor"} or not isinstance(i.type, IntType):
        return False
    sign = 1 << (i.type.bits - 1)
    masks = {number & (2 * sign - 1) for o in i.operands if (number := integer_of(o)) is not None}
    return bool(masks & ({sign - 1} if i.opcode == "and" else {sign}))


def _begin_alike(a: MemoryObject, b: MemoryObject) -> bool:
    return isinstance(a.private, str) and a.private == b.private


def objects_of_constant(value: Value) -> frozenset[MemoryObject]:
    """The globals a constant pointer mentions; nothing for null, undef and poison."""
    if isinstance(value, GlobalRef):
        return frozenset([MemoryObject("global", value.name)])
    if isinstance(value, Constant):
        return frozenset(MemoryObject("global", name) for name in value.globals)
    return frozenset()


def analyse_memory(
    function: Function,
    flow: ControlFlow,
    *,
    group_of: Callable[[Argument], object],
    private: Callable[[Argument], bool | str],
    disjoint: bool,
    marked: Callable[[Instruction], CallEffect | None],
    arithmetic: Callable[[Instruction], bool],
    named_types: NamedTypes,
    live: Collection[Block],
    split: bool = False,
    callees: Summaries | None = None,
    clobbered: Callable[[MemoryObject], bool] = lambda memory: False,
    targets: Targets | None = None,
    multiples: Multiples | None = None,
) -> MemoryFacts:
    """Points-to sets by fixpoint iteration.

    Arguments
        group_of    the argument of the program a pointer parameter belongs to; parameters of one
                    group share an object
        private     whether nothing else in the call reaches the parameter's memory (`noalias`), or
                    nothing but memory of one name
        disjoint    whether the memory of different groups is known not to overlap (checked by the
                    caller at run time)
        live        blocks on the way to a successful return: only what they write can be seen by a
                    reverse sweep
        marked      the effect of a marked call, None for other instructions
        arithmetic  whether a call has no effect but its result
        split       whether the caller may write what it can reach before the reverse sweep runs
        callees     the summaries of the functions of the module; None: their calls are unknown
        clobbered   whether an argument's memory, or a global, may change after the return
        targets     what pointers in argument memory lead to, as far as the caller declares it
        multiples   numbers that divide integer parameters
    """
    solver = _Solver(flow, marked, callees, disjoint, targets or {}, named_types)
    for argument in function.arguments:
        if argument.type.is_pointer:
            solver.point(
                argument, {MemoryObject("argument", group_of(argument), private(argument))}
            )
    solver.solve()
    return MemoryFacts(
        points_to={v: frozenset(s) for v, s in solver.points_to.items()},
        contents={o: frozenset(s) for o, s in solver.contents.items()},
        writes=tuple(
            write
            for block in flow.order
            if block in live
            for i in block.instructions
            for write in _writes(i, marked, arithmetic, named_types, solver)
        ),
        flow=flow,
        disjoint=disjoint,
        named_types=named_types,
        split=split,
        _reach={},
        called=solver.called,
        followed=solver.followed,
        clobbered=clobbered,
        copied={o: frozenset(s) for o, s in solver.copied.items()},
        carried={o: frozenset(s) for o, s in solver.carried.items()},
        targets=solver.targets,
        multiples=multiples or {},
        starts_of={
            i: target
            for i, target in solver.starts_of.items()
            if solver.points_to[i] == {target.memory}
        },
    )


_Objects = Mapping[MemoryObject, Iterable[MemoryObject]]


def _inside(
    memory: MemoryObject, contents: _Objects, copied: _Objects, carried: _Objects
) -> set[MemoryObject]:
    """What pointers in `memory` may point to, those copied there from other memory included."""
    held: set[MemoryObject] = set()
    for one in closure([memory], lambda o: (*copied.get(o, ()), *carried.get(o, ()))):
        held.update(contents.get(one, ()))
        if one.kind in {"argument", "loaded", "global"}:
            held.add(one if one.kind == "loaded" else MemoryObject("loaded", one))
        elif one == RUNTIME:
            held.add(RUNTIME)
    return held


def _reached(
    call: Instruction,
    objects: Callable[[Value], Iterable[MemoryObject]],
    inside: Callable[[MemoryObject], Iterable[MemoryObject]],
) -> set[MemoryObject]:
    addresses = (o for o in call.operands if o.type.is_pointer or o.type.is_int)
    return closure((o for address in addresses for o in objects(address)), inside)


def _is_shorter(o: MemoryObject, least: int) -> bool:
    """Whether nothing in an object lies `least` bytes behind its start."""
    effect = _made_by(o) if least > 0 else None
    if effect is None or not effect.counted or has_header(o) or len(effect.size) != 1:
        return False
    assert isinstance(o.key, Instruction)
    length = integer_of(o.key.operands[effect.size[0]])
    return length is not None and length <= least


class _Solver:
    """Working state of the fixpoint; thrown away once the facts are frozen."""

    def __init__(
        self,
        flow: ControlFlow,
        marked: Callable[[Instruction], CallEffect | None],
        callees: Summaries | None,
        disjoint: bool,
        targets: Targets,
        named_types: NamedTypes,
    ) -> None:
        self.flow, self.marked = flow, marked
        self.callees, self.disjoint = callees, disjoint
        self.targets, self.named_types = targets, named_types
        self.starts_of: dict[Instruction, Target] = {}
        self.called: dict[Instruction, CalledMemory] = {}
        self.followed: dict[Instruction, frozenset[MemoryObject]] = {}
        self.points_to: dict[Value, set[MemoryObject]] = {}
        self.contents: dict[MemoryObject, set[MemoryObject]] = {}
        self.copied: dict[MemoryObject, set[MemoryObject]] = {}
        self.carried: dict[MemoryObject, set[MemoryObject]] = {}
        self.fields: dict[tuple[MemoryObject, int | None], set[MemoryObject]] = {}
        self.changed = False

    def point(self, value: Value, objects: Iterable[MemoryObject]) -> None:
        """`value` may point to `objects`, too."""
        self._grow(self.points_to.setdefault(value, set()), objects)

    def hold(
        self, memory: MemoryObject, objects: Iterable[MemoryObject], offset: int | None = None
    ) -> None:
        """Pointers in `memory` may point to `objects`, too: the one at `offset`, or any."""
        objects = set(objects)
        self._grow(self.contents.setdefault(memory, set()), objects)
        self._grow(self.fields.setdefault((memory, offset), set()), objects)

    def _grow(self, known: set[MemoryObject], more: Iterable[MemoryObject]) -> None:
        before = len(known)
        known.update(more)
        self.changed |= len(known) != before

    def objects(self, value: Value) -> set[MemoryObject]:
        """What `value` may point to, as far as is known."""
        return self.points_to.get(value) or set(objects_of_constant(value))

    def inside(self, memory: MemoryObject) -> set[MemoryObject]:
        """What pointers stored in `memory` may point to."""
        return _inside(memory, self.contents, self.copied, self.carried)

    def copy(self, target: MemoryObject, source: MemoryObject) -> None:
        """`target` may hold bytes of `source`, pointers among them."""
        if target != source:
            self._grow(self.copied.setdefault(target, set()), {source})
        if self.contents.get(source):
            self.hold(target, self.contents[source])

    def solve(self) -> None:
        """Visit all instructions until nothing changes."""
        for holder, fields in self.targets.items():
            self.hold(holder, (target.memory for target in fields.values()))
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
        """An instruction that makes an address, or an integer, from others."""
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
            case opcode if i.type.is_int and opcode in _CARRIES_ADDRESS:
                self._integer(i)
            case _:
                pass

    def _load(self, i: Instruction) -> None:
        for memory in self._within(i.operands[0]):
            offset = self._offset_in_declared(memory, i.operands[0])
            if offset is None:
                self.point(i, self._inside_at(memory, i.operands[0]))
            elif offset in self.targets[memory]:
                self.starts_of[i] = self.targets[memory][offset]
                self.point(i, {self.starts_of[i].memory})
            else:
                self.point(i, {MemoryObject("loaded", memory)})

    def _within(self, pointer: Value) -> list[MemoryObject]:
        """The objects a pointer may point to that are as long as it is behind what was stored.

        One struct often holds pointers to several kinds of memory, and what was read from it may
        be any of them; where in it the next pointer is tells the short ones from the long.
        """
        place = place_of(pointer, self.named_types)
        stored = isinstance(place.base, Instruction) and place.base.opcode in _HANDED_ON
        least = place.offset if stored and place.stride == 0 and not place.through else 0
        return [o for o in self.objects(pointer) if not _is_shorter(o, least)]

    def _offset_in_declared(self, memory: MemoryObject, pointer: Value) -> int | None:
        """Where in memory with declared pointers a pointer points; None where that varies, or in
        other memory.
        """
        if not self.targets.get(memory):
            return None
        place = place_of(pointer, self.named_types)
        base = self.starts_of.get(place.base) if isinstance(place.base, Instruction) else None
        at_start = isinstance(place.base, Argument) or (
            base is not None and base.is_start(place, memory)
        )
        return place.offset if at_start and place.stride == 0 else None

    def _inside_at(self, memory: MemoryObject, pointer: Value) -> set[MemoryObject]:
        """What the pointer in `memory` that another one points to may point to."""
        offset = self._offset_in(memory, pointer)
        if offset is None or memory in self.copied or memory in self.carried:
            return self.inside(memory)
        fields = self.fields
        return fields.get((memory, offset), set()) | fields.get((memory, None), set())

    def _store(self, i: Instruction) -> None:
        for memory in self._within(i.operands[1]):
            self.hold(memory, self.objects(i.operands[0]), self._offset_in(memory, i.operands[1]))

    def _offset_in(self, memory: MemoryObject, pointer: Value) -> int | None:
        """Where a pointer points in memory of the function's own, if that is one aligned place."""
        if memory.kind not in {"alloca", "allocation"}:
            return None
        place = place_of(pointer, self.named_types)
        is_start = place.base is memory.key and place.through == is_counted(memory)
        exact = is_start and place.stride == 0 and place.offset % size_of(PTR, {}) == 0
        return place.offset if exact else None

    def _store_integer(self, i: Instruction) -> None:
        """An integer that was loaded, or is made from an address, may be a pointer."""
        for target in self.objects(i.operands[1]):
            self.hold(target, self.points_to.get(i.operands[0], ()))
        for load in loads_behind(i.operands[0]):
            if load.type == I64:
                for source in self.objects(load.operands[0]):
                    for target in self.objects(i.operands[1]):
                        self._grow(self.carried.setdefault(target, set()), {source})

    def _integer(self, i: Instruction) -> None:
        """An integer made from an address keeps pointing; one that was not points nowhere."""
        for operand in i.operands:
            if self.points_to.get(operand):
                self.point(i, self.points_to[operand])

    def _visit_call(self, call: Instruction) -> None:
        marked = self.marked(call)
        if marked is not None:
            self._marked_call(call, marked)
            return
        if self.callees is not None and self.callees.is_derived(call):
            self._derived_call(call, self.callees)
            return
        effect = effect_of(call.callee_name)
        if effect is None:
            self._unknown_call(call)
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
        """It writes pointers to fresh memory into the struct behind its first operand; what is in
        containers it may exchange for anything it was given, and for fresh memory.
        """
        fresh = MemoryObject("result", call)
        returned = {fresh}
        if effect.follows or effect.hands_out:
            anything = {fresh, *_reached(call, self.objects, self.inside)}
            containers = {o for k in effect.follows for o in self.objects(call.operands[k])}
            self.followed[call] = frozenset(closure(containers, self.inside))
            for memory in self.followed[call]:
                if self.contents.get(memory) is not None:
                    self.hold(memory, anything)
            if effect.hands_out:
                returned = anything
                self.hold(fresh, returned)
        for memory in self.objects(call.operands[0]):
            self.hold(memory, returned)

    def _derived_call(self, call: Instruction, callees: Summaries) -> None:
        called = called_memory(call, self.objects, self.inside, callees, self.disjoint)
        self.called[call] = called
        for place, source in called.summary.stores:
            for memory in called.at(place):
                self.hold(memory, called.at(source))
        for place, source in called.summary.copies:
            for target in called.at(place):
                for memory in called.at(source):
                    self.copy(target, memory)
        if called.summary.everything:
            self._unknown_call(call)
        if call.type.is_pointer:
            self.point(call, (o for p in called.summary.returns for o in called.at(p)))

    def _unknown_call(self, call: Instruction) -> None:
        reached = _reached(call, self.objects, self.inside)
        for memory in reached:
            if self.contents.get(memory) is not None or memory.kind == "alloca":
                self.hold(memory, reached)
        if call.type.is_pointer:
            self.point(call, reached | {UNKNOWN})


def _writes(
    i: Instruction,
    marked: Callable[[Instruction], CallEffect | None],
    arithmetic: Callable[[Instruction], bool],
    named_types: NamedTypes,
    solved: _Solver,
) -> Iterable[Write]:
    """What an instruction may write."""
    if i.opcode == "store":
        yield Write(i, (i.operands[1],), size_of(i.operands[0].type, named_types))
    if i.opcode != "call":
        return
    if i in solved.called:
        called = solved.called[i]
        yield Write(i, (), None, called.summary.everything, called.writes)
        return
    effect = marked(i) or effect_of(i.callee_name)
    if effect is not None:
        if effect.writes:
            pointers = tuple(i.operands[k] for k in effect.writes)
            followed = solved.followed.get(i, frozenset())
            yield Write(i, pointers, _constant_length(i), objects=followed)
    elif not arithmetic(i) and "memory(none)" not in str(i.attributes.get("call_attributes", "")):
        # without pointer arguments it may still write globals, and what it was given before
        yield Write(i, (), None, everything=True)


def _constant_length(call: Instruction) -> int | None:
    """Bytes a memory intrinsic writes, if its length is a literal."""
    is_intrinsic = (call.callee_name or "").startswith("llvm.mem") and len(call.operands) > 2
    return integer_of(call.operands[2]) if is_intrinsic else None
