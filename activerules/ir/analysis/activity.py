"""Activity: which values carry a derivative.

Needs       a Function in normal form; MemoryFacts; ValueTypes; Returns; the activity of each
            parameter
Gives       Activity, frozen: a float is active if it is varied (depends on an independent) and
            useful (influences a dependent); memory likewise; a pointer has a shadow if it may
            point to active memory
Invariants  A1  an integer is never active
            A2  more independents never make fewer values active (monotone)
            A3  if in doubt (unknown call, may-alias) a value is active, never inactive; or the
                program is refused (`ir/analysis/soundness.py`)
            A4  an active pointer never points both to memory with a shadow and to memory without
                one; or the program is refused
Source      Hascoët, Naumann, Pascual (2005), "To be recorded" analysis; Griewank and Walther
            (2008), ch. 6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.called import CalledMemory
from activerules.ir.analysis.memory.callee import CalleeMemory
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.types.stored_bits import all_float_bits
from activerules.ir.analysis.types.value_types import ValueTypes, accesses_of_callee
from activerules.ir.derivatives.rulecall import CallArgument, CallInfo
from activerules.ir.llvm.model import Instruction, Value, backward_slice
from activerules.ir.llvm.types import ArrayType, StructType, Type, VectorType
from activerules.ir.normal.effects import effect_of, memory_intrinsic

COPIES = {"memcpy", "memmove"}


@dataclass(frozen=True)
class Seeds:
    """What is independent and what is dependent.

    values        Active parameters
    memory        what Duplicated parameters point to
    constant      memory the caller marked Const
    returned      the Active return value, if there is one
    known         memory of the caller in which integers are known not to be bits of floats
    handed_out    memory the function allocates and returns together with a shadow
    written_only  Duplicated memory that the function fills, a return slot: its contents are no
                  input, and memory reachable through pointers in it is dependent
    shadowable    constant memory that gets a shadow if a pointer may point to it or to active
                  memory
    addresses     constant memory in which integers may be addresses of other constant memory
    """

    values: frozenset[Value]
    memory: frozenset[MemoryObject]
    constant: frozenset[MemoryObject]
    returned: Value | None
    written_only: frozenset[MemoryObject]
    known: frozenset[MemoryObject]
    handed_out: frozenset[MemoryObject]
    shadowable: frozenset[MemoryObject]
    addresses: frozenset[MemoryObject]

    @property
    def results(self) -> frozenset[MemoryObject]:
        """Memory in which the function stores what it returns, with shadows, to the caller."""
        return self.memory & self.written_only


@dataclass(frozen=True, eq=False)
class Activity:
    """Frozen result of `analyse_activity`; the invariants are in the module docstring.

    all_float_bits   the integers that may hold bits of a float (`types.stored_bits`)
    """

    varied: frozenset[Value]
    useful: frozenset[Value]
    varied_memory: frozenset[MemoryObject]
    useful_memory: frozenset[MemoryObject]
    active_memory: frozenset[MemoryObject]
    memory: MemoryFacts
    all_float_bits: frozenset[Value]

    def is_active(self, value: Value) -> bool:
        """Whether a float value needs a cotangent."""
        return value in self.varied and value in self.useful

    def has_shadow(self, pointer: Value) -> bool:
        """Whether a pointer may point to active memory."""
        return not self.active_memory.isdisjoint(self.memory.objects(pointer))


def analyse_activity(
    memory: MemoryFacts, types: ValueTypes, returns: Returns, calls: EngineCalls, seeds: Seeds
) -> Activity:
    """Find active values and memory; `soundness.refuse_unsound` checks what is left."""
    body = list(returns.instructions())
    float_bits = all_float_bits(types)
    spread = _Spread(memory, types, calls, returns, seeds, float_bits)
    varied, varied_memory = spread.forwards(body)
    useful, useful_memory = spread.backwards(body)
    returned = memory.handed_over(seeds.results)
    if returned:
        returned |= seeds.results
    # the caller may put a cotangent into their shadow
    wanted = (varied_memory & useful_memory) | returned | seeds.handed_out
    active_memory = {o for o in wanted if may_have_shadow(o, seeds)}
    shadowable = seeds.shadowable - returned - seeds.handed_out
    shared = [*_shared_pointers(body, memory), *_shared_objects(body, memory, calls)]
    _extend_to_neighbours(shared, memory, active_memory, seeds.results, shadowable)
    return Activity(
        frozenset(varied),
        frozenset(useful),
        frozenset(varied_memory),
        frozenset(useful_memory),
        frozenset(active_memory),
        memory,
        float_bits,
    )


def may_have_shadow(o: MemoryObject, seeds: Seeds) -> bool:
    """Whether a shadow of this memory exists or can be made.

    Not for globals, Const arguments, the runtime's memory, and memory reached through them.
    """
    while o.kind == "loaded" and isinstance(o.key, MemoryObject):
        o = o.key
    return o.is_local or (o.kind == "argument" and o not in seeds.constant)


@dataclass(frozen=True)
class _Spread:
    """The two closures: along data flow and against it, through values and memory objects alike."""

    memory: MemoryFacts
    types: ValueTypes
    calls: EngineCalls
    returns: Returns
    seeds: Seeds
    all_float_bits: frozenset[Value]

    def forwards(self, body: list[Instruction]) -> tuple[set[Value], set[MemoryObject]]:
        """The values and memory that depend on an independent."""
        values = set(self.seeds.values)
        objects = set(self.seeds.memory - self.seeds.written_only)
        self._close(body, lambda i: self._forward(i, values, objects), values, objects)
        return values, objects

    def backwards(self, body: list[Instruction]) -> tuple[set[Value], set[MemoryObject]]:
        """The values and memory that influence a dependent."""
        values: set[Value] = set()
        handed_over = self.memory.handed_over(self.seeds.results) | self.seeds.handed_out
        objects = set(self.seeds.memory | handed_over)
        if self.seeds.returned is not None:
            values.add(self.seeds.returned)
        self._close(body[::-1], lambda i: self._backward(i, values, objects), values, objects)
        return values, objects

    def _close(
        self,
        body: list[Instruction],
        visit: Callable[[Instruction], None],
        values: set[Value],
        objects: set[MemoryObject],
    ) -> None:
        before = -1
        while before != len(values) + len(objects):
            before = len(values) + len(objects)
            self._close_memory(objects)
            for i in body:
                visit(i)

    def _close_memory(self, objects: set[MemoryObject]) -> None:
        """Add arguments that may overlap memory in the set."""
        for o in self.memory.all_objects - objects:
            if (
                may_have_shadow(o, self.seeds)
                and not o.is_local
                and any(self.memory.may_overlap(o, p) for p in objects if not p.is_local)
            ):
                objects.add(o)

    def _forward(self, i: Instruction, values: set[Value], objects: set[MemoryObject]) -> None:
        at = self.memory.objects
        match i.opcode:
            case "load":
                if holds_float(i.type) and not objects.isdisjoint(at(i.operands[0])):
                    values.add(i)
            case "store":
                if i.operands[0] in values or self._stores_bits(i, values, objects):
                    objects.update(at(i.operands[1]))
            case "call":
                self._forward_call(i, values, objects)
            case _:
                if not values.isdisjoint(self._smooth(i)):
                    values.add(i)

    def _forward_call(
        self, call: Instruction, values: set[Value], objects: set[MemoryObject]
    ) -> None:
        info = self.calls.marked(call)
        if call in self.memory.called:
            self._forward_callee(call, values, objects)
        elif info is not None:
            if not info.inactive and self._touches(call, info, values, objects):
                objects.update(results_of(call, info, self.memory))
            objects.update(_received_by(call, info, self.memory))
        elif memory_intrinsic(call) in COPIES:
            if not objects.isdisjoint(self.memory.objects(call.operands[1])):
                objects.update(self.memory.objects(call.operands[0]))
        elif is_unknown_call(call, self.calls):
            reached = self.memory.reached(call)
            if not objects.isdisjoint(reached) or not values.isdisjoint(call.operands):
                objects.update(reached)
                values.add(call)
        elif not values.isdisjoint(self._smooth(call)):
            values.add(call)

    def _forward_callee(
        self, call: Instruction, values: set[Value], objects: set[MemoryObject]
    ) -> None:
        read = self.memory.read_by(call)
        passes_data = self.memory.called[call].summary.passes_data
        if passes_data or not (values.isdisjoint(call.operands) and objects.isdisjoint(read)):
            objects.update(self.memory.changed_by(call) - self.types.without_floats)
            if holds_float(call.type):
                values.add(call)
        for k, access in self.memory.called[call].summary.keeps_bits:
            bits = call.operands[k]
            if bits in self.all_float_bits and are_varied_bits(bits, values, objects, self.memory):
                objects.update(o for o, _ in accesses_of_callee(call, access, self.memory))

    def _backward(self, i: Instruction, values: set[Value], objects: set[MemoryObject]) -> None:
        at = self.memory.objects
        match i.opcode:
            case "load":
                if i in values or (i in self.all_float_bits and i.type.is_int):
                    objects.update(at(i.operands[0]))
            case "store":
                if holds_float(i.operands[0].type) and not objects.isdisjoint(at(i.operands[1])):
                    values.add(i.operands[0])
            case "call":
                self._backward_call(i, values, objects)
            case _:
                if i in values:
                    values.update(self._smooth(i))

    def _backward_call(
        self, call: Instruction, values: set[Value], objects: set[MemoryObject]
    ) -> None:
        info = self.calls.marked(call)
        if call in self.memory.called:
            passes_data = self.memory.called[call].summary.passes_data
            changed = self.memory.changed_by(call)
            if passes_data or call in values or not objects.isdisjoint(changed):
                objects.update(self.memory.read_by(call))
                values.update(o for o in call.operands if holds_float(o.type))
        elif info is not None:
            needed = [a for a in info.arguments if a.sent]
            if not info.inactive and not objects.isdisjoint(results_of(call, info, self.memory)):
                needed = info.arguments
            self._need_arguments(call, needed, values, objects)
        elif memory_intrinsic(call) in COPIES:
            if not objects.isdisjoint(self.memory.objects(call.operands[0])):
                objects.update(self.memory.objects(call.operands[1]))
        elif is_unknown_call(call, self.calls):
            objects.update(self.memory.reached(call))
            values.update(o for o in call.operands if holds_float(o.type))
        elif call in values:
            values.update(self._smooth(call))

    def _need_arguments(
        self,
        call: Instruction,
        arguments: Sequence[CallArgument],
        values: set[Value],
        objects: set[MemoryObject],
    ) -> None:
        for argument in arguments:
            if argument.kind == "value":
                values.update(argument.floats(call))
            elif argument.kind == "memory":
                objects.update(self.memory.objects(call.operands[argument.pointer]))
            elif argument.is_deep:
                values.update(argument.floats(call))
                objects.update(reachable_from_argument(call, argument, self.memory))

    def _stores_bits(
        self, store: Instruction, values: set[Value], objects: set[MemoryObject]
    ) -> bool:
        """Whether a store of an integer may store the bits of a varied float.

        An integer loaded from the caller's memory, or a copy of it, may also be a float if it is
        stored where floats are.
        """
        value = store.operands[0]
        if value in self.all_float_bits:
            return are_varied_bits(value, values, objects, self.memory)
        return (
            value.type.is_int
            and self.types.touches_floats(store)
            and any(
                not o.is_local and o in objects
                for load in self.memory.origins(value)
                if load.type == value.type
                for source in self.memory.objects(load.operands[0])
                for o in self.memory.copied_with(source)
            )
        )

    def _smooth(self, i: Instruction) -> Iterable[Value]:
        """Operands on which the result depends smoothly; of a phi, those from live blocks."""
        if not holds_float(i.type):
            return ()
        if i.opcode == "phi":
            live = self.returns.predecessors[i.owner]
            return [v for v, b in zip(i.operands, i.blocks, strict=True) if b in live]
        if i.opcode == "freeze":
            return i.operands
        smooth = self.calls.smooth_operands(i)
        if smooth is None:
            return [o for o in i.operands if holds_float(o.type)]
        return [i.operands[k] for k in smooth]

    def _touches(
        self, call: Instruction, info: CallInfo, values: set[Value], objects: set[MemoryObject]
    ) -> bool:
        """Whether any argument of a marked call is in the sets."""
        read_values: set[Value] = set()
        read_objects: set[MemoryObject] = set()
        self._need_arguments(call, info.arguments, read_values, read_objects)
        return not (values.isdisjoint(read_values) and objects.isdisjoint(read_objects))


def _extend_to_neighbours(
    shared: Sequence[frozenset[MemoryObject]],
    memory: MemoryFacts,
    active: set[MemoryObject],
    results: frozenset[MemoryObject],
    shadowable: frozenset[MemoryObject],
) -> None:
    """Add local or constant memory, or a return slot, that needs a shadow although it holds no
    active float (A4).

    Either it is `shared`: a pointer to it may also point to active memory, or a rule takes an
    object that has both. Or it holds pointers to active memory, and its shadow has to hold the
    pointers to the shadows.
    """
    changed = True
    while changed:
        changed = False
        holders = {
            o
            for o, pointees in memory.contents.items()
            if (o.is_local or o in results) and o not in active and not active.isdisjoint(pointees)
        }
        changed |= bool(holders)
        active |= holders
        for objects in shared:
            if active.isdisjoint(objects):
                continue
            local = {o for o in objects if o.is_local or o in shadowable} - active
            changed |= bool(local)
            active |= local


def _shared_pointers(
    body: list[Instruction], memory: MemoryFacts
) -> Iterable[frozenset[MemoryObject]]:
    """Sets of objects to which one pointer may point, here or in a function called here."""
    for i in body:
        if i.type.is_pointer:
            yield memory.objects(i)
        if i in memory.called:
            yield from followed_by(memory.called[i]).values()


def _shared_objects(
    body: list[Instruction], memory: MemoryFacts, calls: EngineCalls
) -> Iterable[frozenset[MemoryObject]]:
    """The memory of each object passed to a rule: all of it has a shadow, or none."""
    for i in body:
        info = calls.marked(i) if i.opcode == "call" else None
        if info is not None and not info.inactive:
            for argument in info.arguments:
                if argument.kind == "object":
                    yield reachable_from_argument(i, argument, memory)


def results_of(call: Instruction, info: CallInfo, memory: MemoryFacts) -> set[MemoryObject]:
    """Memory a marked call may write floats to: its result, new memory, written arguments."""
    objects = set(memory.objects(call.operands[0])) | {MemoryObject("result", call)}
    for argument in info.arguments:
        if argument.kind == "memory" and (argument.written or argument.shadow_written):
            objects |= memory.objects(call.operands[argument.pointer])
        elif argument.is_deep and (argument.written or argument.shadow_written):
            objects |= reachable_from_argument(call, argument, memory)
    return objects


def _received_by(call: Instruction, info: CallInfo, memory: MemoryFacts) -> set[MemoryObject]:
    """Memory into which a marked call writes data that it received other than by arguments."""
    received: set[MemoryObject] = set()
    if info.receives:
        received |= {*memory.objects(call.operands[0]), MemoryObject("result", call)}
    for argument in info.arguments:
        if argument.received:
            received |= reachable_from_argument(call, argument, memory)
    return received


def reachable_from_argument(
    call: Instruction, argument: CallArgument, memory: MemoryFacts
) -> frozenset[MemoryObject]:
    """All memory a function reaches through an argument of a marked call."""
    reached = (memory.reachable_from(call.operands[k]) for k in argument.pointers)
    return frozenset[MemoryObject]().union(*reached)


def followed_by(called: CalledMemory) -> dict[int, frozenset[MemoryObject]]:
    """Per group of operands, the memory whose shadow a callee uses if it is given one."""
    return {
        group: objects | (called.deep[group] if _is_followed(called, group) else frozenset())
        for group, objects in called.direct.items()
    }


def _is_followed(called: CalledMemory, group: int) -> bool:
    deep = CalleeMemory(group, deep=True)
    return (
        called.summary.everything or deep in called.summary.reads or deep in called.summary.writes
    )


def is_unknown_call(i: Instruction, calls: EngineCalls) -> bool:
    """Whether an instruction calls a function of which nothing is known."""
    return (
        i.opcode == "call"
        and calls.marked(i) is None
        and effect_of(i.callee_name) is None
        and calls.smooth_operands(i) is None
    )


def holds_float(t: Type) -> bool:
    """Whether a value of the type is a float or an aggregate with floats in it."""
    match t:
        case ArrayType(_, element) | VectorType(_, element):
            return holds_float(element)
        case StructType(elements):
            return any(map(holds_float, elements))
        case _:
            return t.is_float


def are_varied_bits(
    value: Value, values: Set[Value], objects: Set[MemoryObject], memory: MemoryFacts
) -> bool:
    """Whether an integer may hold bits of a varied float: one in `values` or in `objects`."""

    def holds_varied(i: Instruction) -> bool:
        if i.opcode == "load":
            from_varied = not objects.isdisjoint(memory.objects(i.operands[0]))
        else:
            # the result of an intrinsic on integers depends on its operands alone
            name = i.callee_name or ""
            from_varied = i.opcode == "call" and bool(objects) and not name.startswith("llvm.")
        return from_varied or not values.isdisjoint(i.operands)

    return any(map(holds_varied, backward_slice(value, lambda i: i.opcode != "load")))
