"""Memory: what a pointer may point to, and whether that memory may change later.

Needs       a Function in normal form; its ControlFlow; which pointer parameters share memory
Gives       MemoryFacts, frozen: objects(pointer), overwritten(load), may_alias(p, q), writes
Invariants  M1  every address a pointer may hold at run time lies in one of its objects
            M2  two pointers that may hold the same address share an object, or an object of one
                `may_overlap` an object of the other
            M3  `overwritten(i, p)` is False only if no path from `i` to the return writes to what
                `p` points to
            M4  a marked call in `readers` stores pointers only in the memory given there

`ir/analysis/memory/objects.py` defines the objects; `ir/analysis/memory/points_to.py` establishes
M1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.addresses import (
    Address,
    Multiples,
    address_of,
    before_loops,
)
from activerules.ir.analysis.memory.called import CalledMemory
from activerules.ir.analysis.memory.callee import Summaries
from activerules.ir.analysis.memory.declared import Target, Targets
from activerules.ir.analysis.memory.instances import Instances
from activerules.ir.analysis.memory.interior import Interior, interior_pointers
from activerules.ir.analysis.memory.objects import (
    MemoryObject,
    begin_alike,
    has_header,
    is_counted,
    overlap,
    root,
)
from activerules.ir.analysis.memory.points_to import (
    HANDED_ON,
    Solver,
    Tables,
    objects_of_constant,
    pointees_in,
    reached_by,
    source_loads,
)
from activerules.ir.analysis.memory.writes import Write, writes_of
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Argument, Block, Function, Instruction, Value
from activerules.ir.llvm.types import NamedTypes, size_of
from activerules.ir.normal.effects import language, memory_intrinsic
from activerules.ir.normal.promises import touches_memory


@dataclass(frozen=True, eq=False)
class MemoryFacts:
    """Frozen result of `analyse_memory`; the invariants are in the module docstring.

    called            the calls of functions of the module
    followed          what marked calls reach through containers
    clobbered         whether an object may change after the return, so that everything read from
                      it counts as overwritten
    copy_sources      per object, those whose bytes, of whatever type, are copied to it
    integer_sources   per object, those from which integers that may be pointers are moved to it
    starts_of         loads of pointers that the caller declared (`ir/analysis/memory/declared.py`)
    readers           marked calls that store pointers only in the memory they write, with that
                      memory (M4)
    """

    points_to: dict[Value, frozenset[MemoryObject]]
    contents: dict[MemoryObject, frozenset[MemoryObject]]
    writes: tuple[Write, ...]
    flow: ControlFlow
    disjoint: bool
    named_types: NamedTypes
    split: bool
    called: Mapping[Instruction, CalledMemory]
    followed: Mapping[Instruction, frozenset[MemoryObject]]
    clobbered: Callable[[MemoryObject], bool]
    copy_sources: Mapping[MemoryObject, frozenset[MemoryObject]]
    integer_sources: Mapping[MemoryObject, frozenset[MemoryObject]]
    targets: Targets
    multiples: Multiples
    starts_of: Mapping[Instruction, Target]
    tables: Tables
    readers: Mapping[Instruction, frozenset[MemoryObject]]
    _addresses: dict[Value, Address] = field(default_factory=lambda: {})
    _writes_to: dict[frozenset[MemoryObject], tuple[Write, ...]] = field(default_factory=lambda: {})

    def objects(self, pointer: Value) -> frozenset[MemoryObject]:
        """What `pointer` may point to; empty for null and undef."""
        return self.points_to.get(pointer) or objects_of_constant(pointer)

    def pointees(self, memory: MemoryObject) -> frozenset[MemoryObject]:
        """What pointers stored in `memory` may point to."""
        pointees = pointees_in(
            memory, self.contents, self.copy_sources, self.integer_sources, self.tables
        )
        return frozenset(pointees)

    def copied_with(self, memory: MemoryObject) -> frozenset[MemoryObject]:
        """The objects joined to this one by copies, in either direction; itself included."""
        return frozenset(closure([memory], lambda o: self._copy_neighbours.get(o, ())))

    @cached_property
    def _copy_neighbours(self) -> dict[MemoryObject, set[MemoryObject]]:
        neighbours: dict[MemoryObject, set[MemoryObject]] = {}
        for target, sources in self.copy_sources.items():
            for source in sources:
                neighbours.setdefault(target, set()).add(source)
                neighbours.setdefault(source, set()).add(target)
        return neighbours

    def reached(self, call: Instruction) -> frozenset[MemoryObject]:
        """All memory that a called function can reach: through its operands, through globals, and
        through pointers stored in memory that this function did not allocate.
        """
        if not touches_memory(call):
            return frozenset()
        through_operands = frozenset(reached_by(call, self.objects, self.pointees))
        if call.callee_name in language().confined:
            return through_operands
        return through_operands | self._exposed

    def reachable_from(self, pointer: Value) -> frozenset[MemoryObject]:
        """All memory reachable from a pointer, directly or through stored pointers."""
        return frozenset(closure(self.objects(pointer), self.pointees))

    def read_by(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may read when it is called here."""
        return self.called[call].reads | self._reached_unseen(call)

    def changed_by(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may write when it is called here."""
        return self.called[call].writes | self._reached_unseen(call)

    def _reached_unseen(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may reach by calling unknown functions."""
        return self.reached(call) if self.called[call].summary.everything else frozenset()

    @cached_property
    def _exposed(self) -> frozenset[MemoryObject]:
        """Globals, and memory reachable through pointers in memory not allocated here."""
        written = {o for w in self.writes for o in self.written_by(w)}
        known = {o for o in self.all_objects | written if o.kind == "global"}
        known |= {p for o in self.contents if not o.is_local for p in self.pointees(o)}
        return frozenset(closure(known, self.pointees))

    @cached_property
    def _callers(self) -> frozenset[MemoryObject]:
        """Memory the caller can reach after the return: its own, and what was stored there."""
        outside = {o for o in self.all_objects if o.kind in {"argument", "loaded"}}
        return frozenset(outside) | self.handed_over(outside)

    def handed_over(self, holders: Iterable[MemoryObject]) -> frozenset[MemoryObject]:
        """Memory reachable through pointers that the function stored in `holders`."""
        start = {p for o in holders for p in self._stored_in(o)}
        return frozenset(closure(start, self._stored_in))

    def _stored_in(self, memory: MemoryObject) -> Iterable[MemoryObject]:
        return self.contents.get(memory, ())

    def may_overlap(self, a: MemoryObject, b: MemoryObject) -> bool:
        """Whether two objects may share an address."""
        return overlap(a, b, self.disjoint)

    def written_by(self, write: Write) -> frozenset[MemoryObject]:
        """The objects a write may change; not those of a write with `everything`."""
        return write.objects.union(*map(self.objects, write.pointers))

    def origins(self, value: Value) -> set[Instruction]:
        """The loads that an integer comes from, those of memory to which it was copied included."""
        return closure(source_loads(value), self._stored_from)

    def _stored_from(self, load: Instruction) -> Iterator[Instruction]:
        """The loads of integers that are stored in memory that a load reads."""
        read = self.objects(load.operands[0])
        for store, sources in self._integer_copies:
            if not read.isdisjoint(self.objects(store.operands[1])):
                yield from sources

    @cached_property
    def _integer_copies(self) -> list[tuple[Instruction, list[Instruction]]]:
        """The stores of integers that were loaded, with the loads."""
        instructions = (i for block in self.flow.order for i in block.instructions)
        stores = [i for i in instructions if i.opcode == "store" and i.operands[0].type.is_int]
        return [(i, loads) for i in stores if (loads := source_loads(i.operands[0]))]

    def escaping(self, returned: Value | None) -> frozenset[MemoryObject]:
        """Memory this function allocated that is still reachable after it has returned."""
        outside = [o for o in self.contents if not o.is_local]
        start = [*outside, *(self.objects(returned) if returned is not None else ())]
        reached = closure(start, self._stored_in)
        return frozenset(o for o in reached if o.kind in {"allocation", "result"})

    def may_alias(self, p: Value, p_size: int | None, q: Value, q_size: int | None) -> bool:
        """Whether `p_size` bytes at `p` may overlap `q_size` bytes at `q` (None: unknown size)."""
        if not any(self.may_overlap(a, b) for a in self.objects(p) for b in self.objects(q)):
            return False
        if p_size is None or q_size is None:
            return True
        a, b = self.address(p), self.address(q)
        if (a.base is b.base and a.through == b.through and self._is_one_address(a.base)) or (
            all(self.starts(a, o) and self.starts(b, o) for o in self.objects(p) | self.objects(q))
        ):
            header = all(map(has_header, self.objects(p) | self.objects(q)))
            return a.may_overlap(p_size, b, q_size, header=header)
        return True

    def address(self, pointer: Value) -> Address:
        """The address of a pointer: its base, and its offsets from there."""
        address = self._addresses.get(pointer)
        if address is None:
            address = address_of(pointer, self.named_types, self.multiples, self._addresses)
            self._addresses[pointer] = address
        return address

    def starts(self, address: Address, o: MemoryObject) -> bool:
        """Whether the offsets of an address count from the start of `o` (its data, if counted)."""
        match o.kind:
            case "argument":
                return self._starts_argument(address, o)
            case "allocation" if is_counted(o):
                return address.through or self._leads_to_start(address.base, o)
            case "allocation" | "alloca" if address.base is not o.key:
                return not address.through and self._leads_to_start(address.base, o)
            case _:
                return address.base is o.key and not address.through

    def from_start(self, address: Address, o: MemoryObject) -> Address | None:
        """An address as counted from the start of `o`, or from that of any of the blocks with one
        layout that `o` consists of; None where neither is known.
        """
        if self.starts(address, o):
            return address
        advanced = before_loops(address, self.address)
        if advanced is not address and self.starts(advanced, o):
            return advanced
        target = self.starts_of.get(address.base) if isinstance(address.base, Instruction) else None
        return target and target.from_start(address, o)

    def _starts_argument(self, address: Address, o: MemoryObject) -> bool:
        """Whether the base is a parameter that points to the object, or a declared pointer (D2).

        Two objects with the same private name start at the same address, or do not overlap.
        """
        (memory, *others) = self.objects(address.base) or (None,)
        if memory is None or others or (memory != o and not begin_alike(memory, o)):
            return False
        if isinstance(address.base, Instruction):
            target = self.starts_of.get(address.base)
            return target is not None and target.is_start(address, memory)
        return (
            isinstance(address.base, Argument)
            and (not address.through or memory in self.targets)
            and memory not in self._entered_by_several
        )

    @cached_property
    def _entered_by_several(self) -> frozenset[MemoryObject]:
        """Argument memory that is accessed by several parameters. In a function that is called,
        such parameters may point anywhere in it, as a slice of an array and the array do.
        """
        bases: dict[MemoryObject, set[Value]] = {}
        for i in (i for block in self.flow.order for i in block.instructions):
            for pointer in self._accessed_by(i):
                base = self.address(pointer).base
                for o in self.objects(base) if isinstance(base, Argument) else ():
                    bases.setdefault(o, set()).add(base)
        return frozenset(o for o, entries in bases.items() if len(entries) > 1)

    def _accessed_by(self, i: Instruction) -> Iterable[Value]:
        """The pointers from which offsets are counted where an instruction accesses memory."""
        if i.opcode in {"load", "store"}:
            return i.operands[-1:]
        if memory_intrinsic(i) is not None:
            return (o for o in i.operands[:2] if o.type.is_pointer)
        accesses = self.called[i].summary.accesses if i in self.called else ()
        return (i.operands[a.parameter] for a in accesses if a.parameter is not None)

    def _leads_to_start(self, base: Value, o: MemoryObject) -> bool:
        """Whether a pointer that was loaded or merged points to the start of the data of `o`."""
        handed_on = isinstance(base, Instruction) and base.opcode in HANDED_ON
        return handed_on and not self._interior.may_be(base, o)

    @cached_property
    def _interior(self) -> Interior:
        instructions = (i for block in self.flow.order for i in block.instructions)
        return interior_pointers(instructions, self.objects, self.address, self._stored_into)

    def _stored_into(self, call: Instruction) -> frozenset[MemoryObject]:
        """Where a call may store pointers."""
        own = self.readers.get(call)
        return self.reached(call) if own is None else own

    def _is_one_address(self, base: Value) -> bool:
        """Whether offsets from `base` distinguish addresses in one object.

        They do not if `base` is a different address in each iteration.
        """
        if not isinstance(base, Instruction) or self.flow.loop_of(base.owner) is None:
            return True
        return any(o.key is base for o in self.objects(base))

    def overwritten(self, instruction: Instruction, pointer: Value, size: int | None) -> bool:
        """M3: whether memory at `pointer` may change between `instruction` and the return.

        With `split`, between `instruction` and the reverse sweep: the caller may write in between.
        """
        return self.written_by_callers(pointer) or any(self.overwriting(instruction, pointer, size))

    def written_by_callers(self, pointer: Value) -> bool:
        """Whether callers may write memory at `pointer` before the reverse sweep runs."""
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
                instruction, write, pointer
            ):
                yield write

    def group_overwritten(self, call: Instruction, group: int) -> bool:
        """Whether memory a callee reaches through a group of pointers may change after it."""
        called = self.called[call]
        return self._any_overwritten(call, called.direct[group] | called.deep[group])

    def container_overwritten(self, call: Instruction, pointer: Value) -> bool:
        """Whether memory a marked call can reach through a pointer may change after it."""
        objects = self.reachable_from(pointer)
        return (self.split and not self._callers.isdisjoint(objects)) or self._any_overwritten(
            call, objects
        )

    def _any_overwritten(self, call: Instruction, objects: Iterable[MemoryObject]) -> bool:
        repeated = self.flow.loop_of(call.owner) is not None
        return any(self.clobbered(root(o)) for o in objects) or any(
            (repeated or write.instruction is not call) and self._follows(call, write.instruction)
            for write in self._changing(frozenset(objects))
        )

    def _overlaps(self, some: Iterable[MemoryObject], others: Iterable[MemoryObject]) -> bool:
        others = tuple(others)
        return any(self.may_overlap(a, b) for a in some for b in others)

    def _follows(self, start: Instruction, end: Instruction) -> bool:
        a, b = start.owner, end.owner
        if a is b and a.instructions.index(start) < a.instructions.index(end):
            return True
        return b in self.flow.reachable(a, None)

    def hitting(self, pointer: Value, size: int | None) -> Iterator[Write]:
        """The writes that may change memory at `pointer`, at any time."""
        return (w for w in self._changing(self.objects(pointer)) if self.hits(w, pointer, size))

    def _changing(self, objects: frozenset[MemoryObject]) -> tuple[Write, ...]:
        """The writes that may change any of these objects."""
        if objects not in self._writes_to:
            self._writes_to[objects] = tuple(
                write
                for write in self.writes
                if write.everything or self._overlaps(objects, self.written_by(write))
            )
        return self._writes_to[objects]

    def hits(self, write: Write, pointer: Value, size: int | None) -> bool:
        """Whether a write may change memory at `pointer`."""
        if write.everything or self._overlaps(self.objects(pointer), write.objects):
            return True
        return any(self.may_alias(pointer, size, q, write.size) for q in write.pointers)

    @cached_property
    def _by_instruction(self) -> dict[Instruction, list[Write]]:
        writes: dict[Instruction, list[Write]] = {}
        for write in self.writes:
            writes.setdefault(write.instruction, []).append(write)
        return writes

    def writes_of(self, instruction: Instruction) -> list[Write]:
        """What an instruction may write."""
        return self._by_instruction.get(instruction, [])

    def _reaches(self, start: Instruction, write: Write, pointer: Value) -> bool:
        """Whether a write after `start` can change the memory that `pointer` points to at `start`.

        A path through an allocation site does not count if only the newest object is written.
        """
        a, b = start.owner, write.instruction.owner
        if a is b and a.instructions.index(start) < a.instructions.index(write.instruction):
            return True
        return any(b in self.flow.reachable(a, site) for site in self._renewed_in(write, pointer))

    def _renewed_in(self, write: Write, pointer: Value) -> set[Block | None]:
        """Per object at `pointer` that is written: the block of its site if the write can change
        only its newest instance; else None.
        """
        if write.everything:
            return {None}
        written = self.written_by(write)
        return {
            self._site_of_newest(write, o) if o == target else None
            for o in self.objects(pointer)
            for target in written
            if self.may_overlap(o, target)
        }

    def _site_of_newest(self, write: Write, o: MemoryObject) -> Block | None:
        """The block of the site of `o`, if a write can change only its newest instance."""
        if o.kind not in {"allocation", "result"} or not isinstance(o.key, Instruction):
            return None
        pointers = write.pointers
        if o in write.objects:
            if o in self._stored:
                return None
            pointers = (*pointers, *write.instruction.operands)
        newest = all(self._instances.is_newest(p, o) for p in pointers)
        return o.key.owner if newest else None

    @cached_property
    def _stored(self) -> frozenset[MemoryObject]:
        """The objects to which pointers are stored in memory."""
        return frozenset[MemoryObject]().union(*self.contents.values())

    @cached_property
    def _instances(self) -> Instances:
        return Instances(self.flow, self.objects, self._writers)

    def _writers(self, load: Instruction) -> Iterator[Instruction]:
        """The instructions that may write, at any time, memory that a load reads."""
        size = size_of(load.type, self.named_types)
        return (write.instruction for write in self.hitting(load.operands[0], size))

    @cached_property
    def all_objects(self) -> frozenset[MemoryObject]:
        """Every object that some pointer of the function may point to."""
        return frozenset(o for objects in self.points_to.values() for o in objects) | frozenset(
            self.contents
        ).union(*(c.reached for c in self.called.values()))


def analyse_memory(
    function: Function,
    flow: ControlFlow,
    *,
    group_of: Callable[[Argument], object],
    private: Callable[[Argument], bool | str],
    disjoint: bool,
    calls: EngineCalls,
    named_types: NamedTypes,
    live: Collection[Block],
    split: bool = False,
    callees: Summaries | None = None,
    clobbered: Callable[[MemoryObject], bool] = lambda memory: False,
    targets: Targets | None = None,
    multiples: Multiples | None = None,
    tables: Tables | None = None,
) -> MemoryFacts:
    """Points-to sets by fixpoint iteration.

    Arguments
        group_of    the argument of the program that a pointer parameter belongs to; parameters of
                    one group share an object
        private     whether nothing else in the call reaches the parameter's memory (`noalias`); a
                    name: nothing else but memory of that name does
        disjoint    whether the memory of different groups is known not to overlap (checked by the
                    caller at run time)
        live        blocks on a path to a successful return: only their writes matter to a reverse
                    sweep
        split       whether the caller may write what it can reach before the reverse sweep runs
        callees     the summaries of the functions of the module; None: their calls are unknown
        clobbered   whether an argument's memory, or a global, may change after the return
        targets     what pointers in argument memory point to, as far as the caller declares it
        multiples   numbers that divide integer parameters
        tables      what pointers in constant globals point to
    """
    solver = Solver(flow, calls, callees, disjoint, targets or {}, named_types, tables or {})
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
            for write in writes_of(i, calls, named_types, solver)
        ),
        flow=flow,
        disjoint=disjoint,
        named_types=named_types,
        split=split,
        called=solver.called,
        followed=solver.followed,
        readers=_readers(solver, flow, calls),
        clobbered=clobbered,
        copy_sources={o: frozenset(s) for o, s in solver.copy_sources.items()},
        integer_sources={o: frozenset(s) for o, s in solver.integer_sources.items()},
        targets=solver.targets,
        multiples=multiples or {},
        tables=tables or {},
        starts_of={
            i: target
            for i, target in solver.starts_of.items()
            if solver.points_to[i] == {target.memory}
        },
    )


def _readers(
    solver: Solver, flow: ControlFlow, calls: EngineCalls
) -> dict[Instruction, frozenset[MemoryObject]]:
    """The marked calls that keep and return none of the pointers they are given; per call, the
    memory in which they may store pointers.
    """
    readers: dict[Instruction, frozenset[MemoryObject]] = {}
    for i in (i for block in flow.order for i in block.instructions if i.opcode == "call"):
        effect = calls.marked_effect(i)
        if effect is None or effect.hands_out or (effect.follows and effect.replaces_pointers):
            continue
        holders = set(effect.writes).difference(effect.follows)
        written = {o for k in holders for o in solver.objects(i.operands[k])}
        readers[i] = frozenset(closure(written, solver.pointees))
    return readers
