"""Activity: which values carry a derivative.

Needs       a Function in normal form; MemoryFacts; ValueTypes; Returns; the activity of each parameter
Gives       Activity, frozen: a float is active if it is varied (depends on an independent) and useful (influences a
            dependent); memory likewise; a pointer has a shadow if it may point to active memory
Invariants  A1  an integer is never active
            A2  more independents never make fewer values active (monotone)
            A3  if in doubt (unknown call, may-alias) a value is active, never inactive; or the program is refused
            A4  memory with a shadow and memory without one are never behind the same active pointer (MixedActivity)
Source      Hascoët, Naumann, Pascual (2005), "To be recorded" analysis; Griewank and Walther (2008), ch. 6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from activerules.errors import ActiveMemoryInConst, FloatBitsInInteger, MixedActivity, UnknownCall
from activerules.ir.analysis.memory import UNKNOWN, MemoryFacts, MemoryObject
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.value_types import ValueTypes
from activerules.ir.model import Function, Instruction, Value
from activerules.ir.refusal import refusal
from activerules.ir.rulecall import CallInfo
from activerules.ir.runtime_calls import effect_of, memory_intrinsic
from activerules.ir.types import ArrayType, StructType, Type, VectorType


_TOO_WIDE = {"x86_fp80", "fp128", "ppc_fp128"}


@dataclass(frozen=True)
class Seeds:
    """What is independent and what is dependent: values of Active parameters, memory of Duplicated ones.

    `constant` is memory the caller marked Const. `returned`: the Active return value, if there is one.
    `written_only`: Duplicated memory the function fills (its first contents are no input): a return slot.
    """

    values: frozenset[Value]
    memory: frozenset[MemoryObject]
    constant: frozenset[MemoryObject]
    returned: Value | None
    written_only: frozenset[MemoryObject] = frozenset()


class Calls:
    """What the analyses ask of calls: a marked call's description, and which operands of arithmetic carry derivatives."""

    def marked(self, call: Instruction) -> CallInfo | None:
        raise NotImplementedError

    def carries(self, instruction: Instruction) -> tuple[int, ...] | None:
        """Operands of a float instruction its result depends on smoothly; None if it has no derivative."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Activity:
    """Frozen result of `analyse_activity`."""

    varied: frozenset[Value]
    useful: frozenset[Value]
    varied_memory: frozenset[MemoryObject]
    useful_memory: frozenset[MemoryObject]
    active_memory: frozenset[MemoryObject]
    memory: MemoryFacts

    def is_active(self, value: Value) -> bool:
        """Whether a float value needs a cotangent."""
        return value in self.varied and value in self.useful

    def has_shadow(self, pointer: Value) -> bool:
        """Whether a pointer may point to active memory."""
        return not self.active_memory.isdisjoint(self.memory.objects(pointer))


def analyse_activity(
    function: Function,
    memory: MemoryFacts,
    types: ValueTypes,
    returns: Returns,
    calls: Calls,
    seeds: Seeds,
) -> Activity:
    """Raises the errors named in A3 and A4, each with the instruction that is in the way."""
    body = [i for block in memory.flow.order if block in returns.live for i in block.instructions]
    spread = _Spread(memory, types, calls, returns, seeds)
    varied, varied_memory = spread.forwards(body, seeds)
    useful, useful_memory = spread.backwards(body, seeds)
    active_memory = {o for o in varied_memory & useful_memory if may_have_shadow(o, seeds)}
    _extend_to_neighbours(body, memory, active_memory, seeds)
    facts = Activity(
        frozenset(varied), frozenset(useful), frozenset(varied_memory), frozenset(useful_memory),
        frozenset(active_memory), memory,
    )  # fmt: skip
    check = _Check(facts, types, calls, seeds)
    for i in body:
        check(i)
    return facts


def may_have_shadow(o: MemoryObject, seeds: Seeds) -> bool:
    """Whether a shadow of this memory exists or can be made: not for globals, Const arguments and the runtime's memory."""
    while o.kind == "loaded" and isinstance(o.key, MemoryObject):
        o = o.key
    return o.is_local or (o.kind == "argument" and o not in seeds.constant)


@dataclass(frozen=True)
class _Spread:
    """The two closures: along data flow and against it, through values and memory objects alike."""

    memory: MemoryFacts
    types: ValueTypes
    calls: Calls
    returns: Returns
    seeds: Seeds

    def forwards(
        self, body: list[Instruction], seeds: Seeds
    ) -> tuple[set[Value], set[MemoryObject]]:
        values, objects = set(seeds.values), set(seeds.memory - seeds.written_only)
        self._close(body, lambda i: self._forward(i, values, objects), values, objects)
        return values, objects

    def backwards(
        self, body: list[Instruction], seeds: Seeds
    ) -> tuple[set[Value], set[MemoryObject]]:
        values, objects = set(), set(seeds.memory)
        if seeds.returned is not None:
            values.add(seeds.returned)
        self._close(body[::-1], lambda i: self._backward(i, values, objects), values, objects)
        return values, objects

    def _close(self, body: list[Instruction], visit: Callable, values: set, objects: set) -> None:
        before = -1
        while before != len(values) + len(objects):
            before = len(values) + len(objects)
            self._close_memory(objects)
            for i in body:
                visit(i)

    def _close_memory(self, objects: set[MemoryObject]) -> None:
        """Memory that may overlap memory in the set is in the set (an argument that may alias another)."""
        for o in self.memory.all_objects - objects:
            if (
                may_have_shadow(o, self.seeds)
                and not o.is_local
                and any(self.memory.may_overlap(o, p) for p in objects if not p.is_local)
            ):
                objects.add(o)

    def _forward(self, i: Instruction, values: set, objects: set) -> None:
        at = self.memory.objects
        if i.opcode == "load":
            if holds_float(i.type) and not objects.isdisjoint(at(i.operands[0])):
                values.add(i)
        elif i.opcode == "store":
            if i.operands[0] in values or self._stores_bits(i, objects):
                objects.update(at(i.operands[1]))
        elif i.opcode == "call" and (info := self.calls.marked(i)) is not None:
            if not info.inactive and self._touches(i, info, values, objects):
                objects.update(self._results(i, info))
        elif memory_intrinsic(i) in {"memcpy", "memmove"}:
            if not objects.isdisjoint(at(i.operands[1])):
                objects.update(at(i.operands[0]))
        elif self._is_unknown(i):
            reached = self.memory.reached(i)
            if not objects.isdisjoint(reached) or any(o in values for o in i.operands):
                objects.update(reached)
                values.add(i)
        elif any(k_in in values for k_in in self._smooth(i)):
            values.add(i)

    def _backward(self, i: Instruction, values: set, objects: set) -> None:
        at = self.memory.objects
        if i.opcode == "load":
            if i in values or (i in self.types.float_bits and i.type.is_int):
                objects.update(at(i.operands[0]))
        elif i.opcode == "store":
            if holds_float(i.operands[0].type) and not objects.isdisjoint(at(i.operands[1])):
                values.add(i.operands[0])
        elif self._is_unknown(i):
            objects.update(self.memory.reached(i))
            values.update(o for o in i.operands if holds_float(o.type))
        elif i.opcode == "call" and (info := self.calls.marked(i)) is not None:
            if not info.inactive and not objects.isdisjoint(self._results(i, info)):
                for argument in info.arguments:
                    if argument.kind == "value":
                        values.add(i.operands[argument.operands[0]])
                    elif argument.kind == "memory":
                        objects.update(at(i.operands[argument.data_operand]))
        elif memory_intrinsic(i) in {"memcpy", "memmove"}:
            if not objects.isdisjoint(at(i.operands[0])):
                objects.update(at(i.operands[1]))
        elif i in values:
            values.update(self._smooth(i))

    def _is_unknown(self, i: Instruction) -> bool:
        return is_unknown_call(i, self.calls)

    def _stores_bits(self, store: Instruction, objects: set) -> bool:
        """A store of an integer that may be a float's bits: varied if any memory is."""
        return store.operands[0] in self.types.float_bits and bool(objects)

    def _smooth(self, i: Instruction) -> Iterable[Value]:
        """Operands the result depends on smoothly; a phi counts its live predecessors only."""
        if not holds_float(i.type):
            return ()
        if i.opcode == "phi":
            live = self.returns.predecessors[i.parent]
            return [v for v, b in zip(i.operands, i.blocks, strict=True) if b in live]
        if i.opcode == "freeze":
            return i.operands
        carried = self.calls.carries(i)
        if carried is None:
            return [o for o in i.operands if holds_float(o.type)]
        return [i.operands[k] for k in carried]

    def _touches(self, call: Instruction, info: CallInfo, values: set, objects: set) -> bool:
        return any(
            call.operands[a.operands[0]] in values
            if a.kind == "value"
            else a.kind == "memory"
            and not objects.isdisjoint(self.memory.objects(call.operands[a.data_operand]))
            for a in info.arguments
        )

    def _results(self, call: Instruction, info: CallInfo) -> set[MemoryObject]:
        """Memory a marked call may write floats to: its result, new memory, and arguments it may write."""
        found = set(self.memory.objects(call.operands[0])) | {MemoryObject("result", call)}
        for argument in info.arguments:
            if argument.kind == "memory" and argument.written:
                found |= self.memory.objects(call.operands[argument.data_operand])
        return found


def _extend_to_neighbours(
    body: list[Instruction], memory: MemoryFacts, active: set[MemoryObject], seeds: Seeds
) -> None:
    """Local memory that also gets a shadow, though no active float is in it (A4).

    It is behind a pointer that may also point to active memory; or it holds pointers to active memory, and its shadow
    holds the pointers to their shadows.
    """
    changed = True
    while changed:
        changed = False
        holders = {
            o
            for o, held in memory.contents.items()
            if o.is_local and o not in active and not active.isdisjoint(held)
        }
        changed |= bool(holders)
        active |= holders
        for i in body:
            if not i.type.is_pointer:
                continue
            objects = memory.objects(i)
            if active.isdisjoint(objects):
                continue
            local = {o for o in objects if o.is_local and o not in active}
            changed |= bool(local)
            active |= local


@dataclass(frozen=True)
class _Check:
    """Refuses what would lead to a wrong derivative."""

    activity: Activity
    types: ValueTypes
    calls: Calls
    seeds: Seeds

    def __call__(self, i: Instruction) -> None:
        if not i.type.is_float and holds_float(i.type) and self.activity.is_active(i):
            self._aggregate(i)
        if str(i.type) in _TOO_WIDE and self.activity.is_active(i):
            self._too_wide(i)
        if i.opcode == "load":
            self._load(i)
        elif i.opcode in {"sitofp", "uitofp"}:
            if i.operands[0] in self.types.float_bits and i in self.activity.useful:
                self._float_bits(i)
        elif i.opcode == "inttoptr":
            if self.activity.has_shadow(i):
                self._hidden_pointer(i)
        elif i.opcode == "store":
            self._store(i)
        elif i.opcode == "bitcast" and i.type.is_float and i.operands[0] in self.types.float_bits:
            self._float_bits(i)
        elif i.opcode == "call":
            self._call(i)

    def _too_wide(self, i: Instruction) -> None:
        raise refusal(
            i, f"an active value has the type {i.type}",
            "derivatives are computed in float and double", ["compute in double"],
        )  # fmt: skip

    def _load(self, i: Instruction) -> None:
        pointer = i.operands[0]
        if i.type.is_float:
            if self.activity.is_active(i):
                self._shadowed(i, pointer)
            if i in self.activity.useful and UNKNOWN in self.activity.memory.objects(pointer):
                self._hidden_pointer(i)
        elif (
            i.type.is_pointer and self.activity.has_shadow(pointer) and self.types.touches_floats(i)
        ):
            self._float_bits(i)

    def _store(self, i: Instruction) -> None:
        value, pointer = i.operands
        if (
            not value.type.is_float
            and self.activity.has_shadow(pointer)
            and self._copies_unknown(value, pointer)
        ):
            raise refusal(
                i, "memory whose type is not known is copied as integers or pointers",
                "if it holds floats, their derivative would be lost", ["copy it as the type it has"],
                FloatBitsInInteger,
            )  # fmt: skip
        if value.type.is_float:
            if self.activity.has_shadow(pointer) or self.activity.is_active(value):
                if not self.activity.memory.objects(pointer).isdisjoint(
                    self.activity.useful_memory
                ):
                    self._shadowed(i, pointer)
        elif value.type.is_int and self.activity.has_shadow(pointer):
            if value in self.types.float_bits:
                self._float_bits(i)

    def _copies_unknown(self, value: Value, pointer: Value) -> bool:
        """Whether a loaded integer or pointer goes from shadowed memory to another, neither with a known type."""
        objects = self.activity.memory.objects
        sources = [
            o
            for load in _loads_behind(value)
            if load.type == value.type
            for o in objects(load.operands[0])
        ]
        return any(self._is_untyped(o) for o in sources) and any(
            self._is_untyped(o) for o in objects(pointer)
        )

    def _is_untyped(self, o: MemoryObject) -> bool:
        filled = o in self.seeds.written_only
        return (
            o in self.activity.active_memory
            and not o.is_local
            and not filled
            and not self.types.holds_float(o)
        )

    def _bits_go_in(self, call: Instruction) -> bool:
        return any(o in self.types.float_bits for o in call.operands) and bool(self.activity.varied)

    def _aggregate(self, i: Instruction) -> None:
        raise refusal(
            i, "a struct or array of floats carries a derivative as one value",
            "the engine differentiates scalars and memory", ["pass the floats one by one, or through memory"],
        )  # fmt: skip

    def _hidden_pointer(self, i: Instruction) -> None:
        raise refusal(
            i, "an address made from an integer leads to memory that may be active",
            "which memory it is, and where its shadow lies, is not known", ["pass the array itself"], MixedActivity,
        )  # fmt: skip

    def _shadowed(self, i: Instruction, pointer: Value) -> None:
        objects = self.activity.memory.objects(pointer)
        bare = [o for o in objects if o not in self.activity.active_memory]
        if not bare:
            return
        constant = [o for o in bare if o in self.seeds.constant]
        if constant and len(bare) == len(objects) and i.opcode == "store":
            raise refusal(
                i, "active data is stored into memory marked Const and read back",
                "a Const array has no shadow, so its part of the derivative would be lost",
                ["mark the array Duplicated and give it a zero shadow"], ActiveMemoryInConst,
            )  # fmt: skip
        raise refusal(
            i, f"a pointer may lead to active memory or to memory without a shadow ({_names(bare)})",
            "whether there is a shadow to add to is not known when the derivative is compiled",
            ["mark both arrays Duplicated (a shadow of zeros for the constant one)"], MixedActivity,
        )  # fmt: skip

    def _float_bits(self, i: Instruction) -> None:
        raise refusal(
            i, "the bits of an active float pass through integer arithmetic",
            "the derivative of such arithmetic is not known, and zero would be wrong",
            ["compute with floats, or stop the gradient with ignore_derivatives(x)"], FloatBitsInInteger,
        )  # fmt: skip

    def _call(self, i: Instruction) -> None:
        if not is_unknown_call(i, self.calls):
            return
        reached = self.activity.memory.reached(i)
        varied = any(o in self.activity.varied for o in i.operands)
        if varied or not reached.isdisjoint(self.activity.varied_memory) or self._bits_go_in(i):
            raise refusal(
                i, f"active data flows into {i.callee_name or 'a function pointer'}, which has no derivative",
                "its code is not visible (external, recursive or called through a pointer) and it has no rule",
                ["give it a rule: @ar.augmented_primal(f) and @ar.reverse(f)",
                 "or declare that no derivative flows through it: ar.inactive(f)"], UnknownCall,
            )  # fmt: skip


def is_unknown_call(i: Instruction, calls: Calls) -> bool:
    """Whether an instruction calls a function nothing is known of."""
    return (
        i.opcode == "call"
        and calls.marked(i) is None
        and effect_of(i.callee_name) is None
        and calls.carries(i) is None
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


def _loads_behind(value: Value) -> list[Instruction]:
    """The loads a value comes from, through phi, select and freeze."""
    found, seen, work = [], set(), [value]
    while work:
        one = work.pop()
        if one in seen or not isinstance(one, Instruction):
            continue
        seen.add(one)
        if one.opcode == "load":
            found.append(one)
        elif one.opcode in {"phi", "select", "freeze"}:
            work.extend(one.operands)
    return found


def _names(objects: Iterable[MemoryObject]) -> str:
    return ", ".join(sorted(f"{o.kind} {getattr(o.key, 'name', o.key)}" for o in objects))
