"""Value types: where the bits of floats are, in memory and in integers.

Needs       a Function in normal form; its MemoryFacts; the layouts of argument memory that the
            caller declares
Gives       ValueTypes, frozen
Invariants  V1  an integer outside `float_bits` holds no bits of a float that varies
            V2  `holds_float(object)` is True if any access reads or writes a float in it, or the
                caller says so
            V3  an integer loaded from memory that holds floats there is in `float_bits`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from activerules.ir.analysis.memory.addresses import Address, is_aligned
from activerules.ir.analysis.memory.callee import CalleeAccess
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject, has_header
from activerules.ir.analysis.memory.shapes import Kind, ShapesIn
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import (
    BINARY_INT,
    Constant,
    Function,
    Instruction,
    Value,
    accessed_type,
)
from activerules.ir.llvm.types import FloatType, IntType, NamedTypes, Type, size_of


@dataclass(frozen=True)
class TypedAccess:
    """A load or store of `type` at an address in an object; None: it may be anywhere in it.

    aligned    its address is known to be a multiple of its size
    """

    instruction: Instruction
    type: Type
    address: Address | None
    aligned: bool

    def overlaps(self, other: TypedAccess, named: NamedTypes, *, header: bool) -> bool:
        """Whether two accesses of one object may share a byte."""
        if self.address is None or other.address is None:
            return True
        size, other_size = size_of(self.type, named), size_of(other.type, named)
        return self.address.may_overlap(size, other.address, other_size, header=header)


@dataclass(frozen=True, eq=False)
class ValueTypes:
    """Frozen result of `analyse_value_types`."""

    accesses: Mapping[MemoryObject, tuple[TypedAccess, ...]]
    declared: Mapping[MemoryObject, Declared]
    float_bits: frozenset[Value]
    memory: MemoryFacts
    shapes: Callable[[], ShapesIn]

    def holds_float(self, memory: MemoryObject) -> bool:
        """Whether memory holds a float: one that is accessed there, or that is declared (V2)."""
        declared = memory in self.declared and bool(self.declared[memory].floats)
        return declared or any(isinstance(a.type, FloatType) for a in self.accesses.get(memory, ()))

    def float_types(self, memory: MemoryObject) -> set[Type]:
        """The float types the object is known to hold."""
        types: set[Type] = {a.type for a in self.accesses.get(memory, ()) if a.type.is_float}
        return types | (self.declared[memory].float_types if memory in self.declared else set())

    def is_read_as_integer(self, store: Instruction) -> bool:
        """Whether a value of this type is also loaded at exactly the address of the store: then it
        is an integer, not the bits of a float.
        """
        address = self.memory.address(store.operands[1])
        objects = self.memory.objects(store.operands[1])
        return address.stride == 0 and all(
            self.memory.starts(address, o)
            and any(
                access.instruction.opcode == "load"
                and access.type == store.operands[0].type
                and access.address is not None
                and (access.address.offset, access.address.stride) == (address.offset, 0)
                for access in self.accesses.get(o, ())
            )
            for o in objects
        )

    @cached_property
    def without_floats(self) -> frozenset[MemoryObject]:
        """Declared memory that never holds the bits of a float (D1)."""
        return frozenset(o for o, declared in self.declared.items() if not declared.floats)

    @cached_property
    def as_declared(self) -> frozenset[MemoryObject]:
        """Declared memory in which floats are read and written only where they are declared, and
        not through a view of it as something else (decision 0013).
        """
        return frozenset(
            o
            for o, declared in self.declared.items()
            if all(
                declared.admits(a.type, a.address) or reads_any(a, declared)
                for a in self.accesses.get(o, ())
                if a.type.is_float
            )
        )

    def touches_floats(self, access: Instruction) -> bool:
        """Whether a load or store of another type may access bytes of a float."""
        return self._meets_declared(access) or self._touches(access, "float", self.as_declared)

    def is_free_of_floats(self, access: Instruction) -> bool:
        """Whether no function of the module, callers included, has floats where a load or store
        acts.
        """
        return not self.shapes().may_hold(access.operands[-1], accessed_type(access), "float")

    def may_keep_float(self, call: Instruction, access: CalleeAccess) -> bool:
        """Whether what a callee stores by `access` may be read as a float, here or by a caller."""
        return not access.without_floats and any(
            self._meets_others(o, translated, "float")
            or o in self.declared
            or any(not p.is_local for p in self.memory.copied_with(o))
            for o, translated in accesses_of_callee(call, access, self.memory)
        )

    def touches_pointers(self, access: Instruction) -> bool:
        """Whether a load or store of another type may access bytes of a pointer."""
        return self._touches(access, "pointer")

    def _meets_declared(self, access: Instruction) -> bool:
        pointer = access.operands[-1]
        t = accessed_type(access)
        address, named = self.memory.address(pointer), self.memory.named_types
        return any(
            self.declared[o].meets_float(t, self.memory.from_start(address, o), named)
            for o in self.memory.objects(pointer)
            if o in self.declared
        )

    def cuts_floats(self, access: Instruction) -> bool:
        """Whether a load or store acts on part of a float that is read or written elsewhere."""
        pointer = access.operands[-1]
        t = accessed_type(access)
        address, named = self.memory.address(pointer), self.memory.named_types
        return any(
            known.type.is_float
            and known.address is not None
            and address.cuts(size_of(t, named), known.address, size_of(known.type, named))
            for memory in self.memory.objects(pointer)
            if self.memory.starts(address, memory)
            for known in self.accesses.get(memory, ())
        )

    def is_reinterpreted(self, access: Instruction) -> bool:
        """Whether a load or store of a float acts on memory for which the caller declares floats,
        but none of its type.
        """
        t = accessed_type(access)
        objects = self.memory.objects(access.operands[-1])
        return bool(objects) and all(
            o in self.declared and t not in (self.declared[o].float_types or {t}) for o in objects
        )

    def _touches(
        self, access: Instruction, kind: Kind, trusted: Collection[MemoryObject] = ()
    ) -> bool:
        """`trusted`: memory in which an exact address needs no comparison with other accesses."""
        t, pointer = accessed_type(access), access.operands[-1]
        met = self._meets(access, t, kind, trusted)
        return met and self.shapes().may_hold(pointer, t, kind)

    def _meets(
        self, access: Instruction, t: Type, kind: Kind, trusted: Collection[MemoryObject]
    ) -> bool:
        pointer = access.operands[-1]
        address = self.memory.address(pointer)
        for memory in self.memory.objects(pointer):
            known = self.memory.from_start(address, memory)
            if known is not None and memory in trusted:
                continue
            if self._meets_others(memory, TypedAccess(access, t, known, aligned=False), kind):
                return True
        return False

    def _meets_others(self, memory: MemoryObject, mine: TypedAccess, kind: Kind) -> bool:
        named, header = self.memory.named_types, has_header(memory)
        return any(
            (access.type.is_float if kind == "float" else access.type.is_pointer)
            and access.overlaps(mine, named, header=header)
            for access in self.accesses.get(memory, ())
        )

    def may_be_copied(self, access: TypedAccess, o: MemoryObject, pointer: Value) -> bool:
        """Whether bytes from `pointer` on, if it points into `o`, may be those of an access."""
        if o not in self.memory.objects(pointer):
            return False
        address = self.memory.address(pointer)
        if access.address is None or access.address.stride or not self.memory.starts(address, o):
            return True
        start = (
            address.offset if address.stride == 0 else address.first_item if has_header(o) else None
        )
        end = access.address.offset + size_of(access.type, self.memory.named_types)
        return start is None or end > start


def analyse_value_types(
    function: Function,
    memory: MemoryFacts,
    declared: Mapping[MemoryObject, Declared],
    shapes: Callable[[], ShapesIn],
) -> ValueTypes:
    """Find the accesses of each object, and the integers that may be bits of floats.

    declared   the layouts that the caller declares
    shapes     the shapes of the module, for what the objects leave open
    """
    accesses: dict[MemoryObject, list[TypedAccess]] = defaultdict(list)
    for block in memory.flow.order:
        for i in block.instructions:
            if i.opcode in {"load", "store"}:
                t = accessed_type(i)
                pointer = i.operands[-1]
                address = memory.address(pointer)
                aligned = is_aligned(i, size_of(t, memory.named_types))
                for o in memory.objects(pointer):
                    known = memory.from_start(address, o)
                    accesses[o].append(TypedAccess(i, t, known, aligned))
            elif i in memory.called:
                for access in memory.called[i].summary.accesses:
                    for o, translated in accesses_of_callee(i, access, memory):
                        accesses[o].append(translated)
    by_object = {o: tuple(a) for o, a in accesses.items()}
    facts = ValueTypes(by_object, declared, frozenset(), memory, shapes)
    return replace(facts, float_bits=_float_bits(function, facts))


def accesses_of_callee(
    call: Instruction, access: CalleeAccess, memory: MemoryFacts
) -> Iterable[tuple[MemoryObject, TypedAccess]]:
    """An access of a callee as one of the call, per object of the caller."""
    if access.parameter is None:
        for o in memory.called[call].at(access.memory):
            yield o, TypedAccess(call, access.type, None, access.aligned)
        return
    pointer = call.operands[access.parameter]
    address = memory.address(pointer)
    shifted = replace(address, offset=address.offset + (access.offset or 0), low=None)
    for o in memory.objects(pointer):
        known = None if access.offset is None else memory.from_start(shifted, o)
        yield o, TypedAccess(call, access.type, known, access.aligned)


def _float_bits(function: Function, facts: ValueTypes) -> frozenset[Value]:
    """The integers that may hold bits of a float (V1)."""
    tainted: set[Value] = set()
    changed = True
    while changed:
        changed = False
        for i in function.instructions():
            if i not in tainted and i.type.is_int and takes_bits(i, tainted, facts):
                tainted.add(i)
                changed = True
    return frozenset(tainted)


def takes_bits(i: Instruction, tainted: Set[Value], facts: ValueTypes) -> bool:
    """Whether an integer may hold bits of a float if those in `tainted` may."""
    match i.opcode:
        case "bitcast":
            return i.operands[0].type.is_float
        case "load":
            return facts.touches_floats(i)
        case "phi":
            return any(o in tainted for o in i.operands)
        case "select":
            return any(o in tainted for o in i.operands[1:])
        case "trunc" | "zext" | "sext" | "freeze":
            return i.operands[0] in tainted
        case "call":
            return any(o in tainted for o in i.operands) or _returns_bits(i, facts)
        case "extractvalue":
            (call,) = i.operands
            return isinstance(call, Instruction) and (
                call in facts.memory.called or any(o in tainted for o in call.operands)
            )
        case "lshr" | "ashr" if _is_sign(i):
            return False
        case opcode if opcode in BINARY_INT:
            return any(o in tainted for o in i.operands)
        case _:
            return False


def _returns_bits(call: Instruction, facts: ValueTypes) -> bool:
    """Whether a function of the module returns an integer that may be the bits of a float."""
    called = facts.memory.called.get(call)
    if called is None:
        return False
    named = facts.memory.named_types
    if called.summary.returns_bits:
        return True
    return facts.shapes().may_be_bits(call) and any(
        (o in facts.declared and facts.declared[o].meets_float(read.type, read.address, named))
        or any(
            a.type.is_float and a.overlaps(read, named, header=has_header(o))
            for a in facts.accesses.get(o, ())
        )
        for access in called.summary.bits
        for o, read in accesses_of_callee(call, access, facts.memory)
    )


def reads_any(a: TypedAccess, declared: Declared) -> bool:
    """Whether it is a load of a declared float type at an unknown address, as where a pointer to an
    array is merged with one to its copy. Wherever it reads, all other bytes hold no bits of floats.
    """
    return a.instruction.opcode == "load" and a.address is None and a.type in declared.float_types


def _is_sign(shift: Instruction) -> bool:
    """Whether a shift leaves only the sign of a float, which has no derivative."""
    amount = integer_of(shift.operands[1])
    return isinstance(shift.type, IntType) and amount == shift.type.bits - 1


def clears(i: Instruction) -> bool:
    """Whether an instruction stores zero bits."""
    return i.opcode == "store" and is_zero(i.operands[0])


def is_zero(value: Value) -> bool:
    """Whether a constant is all zero bits."""
    return isinstance(value, Constant) and value.text in {
        "0",
        "null",
        "zeroinitializer",
        "false",
        "0.000000e+00",
    }
