"""Integers and pointers in which the bits of active floats, or addresses, may be hidden.

Needs       what `analyse_activity` needs, and its Activity
Gives       `HiddenBits`: what may hold such bits, and the refusal of an instruction that moves them
Invariants  A3 and A4 of `ir/analysis/activity.py`: what may hold them counts as holding them
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.errors import FloatBitsInInteger, NotYetSupported
from activerules.ir.analysis.activity import Activity, Seeds, are_varied_bits
from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.objects import UNKNOWN, MemoryObject
from activerules.ir.analysis.memory.points_to import source_loads
from activerules.ir.analysis.types.value_types import ValueTypes
from activerules.ir.llvm.model import Instruction, Value, backward_slice
from activerules.ir.llvm.refusal import refusal
from activerules.ir.llvm.types import I64


@dataclass(frozen=True)
class HiddenBits:
    """The answers for one function, from the facts about it."""

    activity: Activity
    types: ValueTypes
    calls: EngineCalls
    seeds: Seeds

    def are_carried(self, value: Value) -> bool:
        """Whether an integer may hold bits of a varied float."""
        facts = self.activity
        return value in facts.all_float_bits and are_varied_bits(
            value, facts.varied, facts.varied_memory, facts.memory
        )

    def is_unknown(self, value: Value) -> bool:
        """Whether an integer comes from varied memory whose type is not known, perhaps through
        memory that it was copied to.
        """
        memory = self.activity.memory
        unknown = self.activity.varied_memory - self.seeds.known
        sources = backward_slice(value, lambda i: i.opcode != "load")
        return value.type.is_int and (
            are_varied_bits(value, frozenset(), unknown, memory)
            or any(
                not unknown.isdisjoint(memory.objects(origin.operands[0]))
                for load in sources
                if load.opcode == "load"
                for origin in memory.origins(load)
            )
        )

    def are_passed(self, call: Instruction) -> bool:
        """Whether an operand of a call may hold bits of a varied float."""
        bits = any(o in self.types.float_bits for o in call.operands) and bool(self.activity.varied)
        return bits or any(map(self.are_carried, call.operands))

    def may_be_copied(self, store: Instruction) -> bool:
        """Whether a store moves an integer or pointer from the caller's memory to where floats may
        be: it may be the bits of a float, as the type of the caller's memory is not known.
        """
        value, pointer = store.operands
        objects = self.activity.memory.objects
        unknown = any(
            any(self._is_from_outside(o) for o in objects(load.operands[0]))
            and not self.types.is_free_of_floats(load)
            for load in self.activity.memory.origins(value)
            if load.type == value.type
        )
        return unknown and (
            self.types.touches_floats(store)
            or any(self._is_from_outside(o) for o in objects(pointer))
        )

    def may_be_pointer(self, store: Instruction) -> bool:
        """Whether an integer that is stored may be a pointer to active memory, whose shadow would
        have to be stored, too.
        """
        facts = self.activity
        if not store.operands[0].type.is_int:
            return False
        objects = facts.memory.points_to.get(store.operands[0], frozenset())
        if not facts.active_memory.isdisjoint(objects) and self.types.touches_pointers(store):
            return True
        return any(
            (self.types.touches_pointers(load) or self.types.touches_pointers(store))
            and not facts.active_memory.isdisjoint(facts.memory.pointees(o))
            for load in source_loads(store.operands[0])
            if load.type == I64
            for o in facts.memory.objects(load.operands[0])
        )

    def _is_from_outside(self, o: MemoryObject) -> bool:
        """Whether it is active memory, or a copy of such, whose contents only the caller knows."""
        unknown = self.activity.active_memory - self.seeds.known
        return any(p in unknown and not p.is_local for p in self.activity.memory.copied_with(o))

    def refuse(self, i: Instruction) -> None:
        """Refuse an instruction that moves such bits; the reason given fits where they are from."""
        mixed = "floats, pointers and integers in a list, dictionary or object cannot be told apart"
        if any(map(self._is_mixed_up, (i, *source_loads(i.operands[0])))):
            raise refusal(
                i,
                mixed,
                "it comes from outside, or from a function whose code is not visible, and is "
                "passed to a function that is not inlined, as one that calls itself: there, all "
                "that its pointers lead to counts as one block of memory",
                [
                    "pass arrays of numbers, and an index, to that function",
                    "a loop with a stack of its own (a list) instead of recursion",
                ],
                FloatBitsInInteger,
            )
        if i.opcode == "load" and i.type.is_pointer:
            self._replaced_by_a_rule(i)
            raise refusal(
                i,
                mixed,
                "where in it this pointer is read is known only when the program runs, and "
                "floats may be there as well",
                ["keep the numbers in arrays, and indices in place of the pointers"],
                FloatBitsInInteger,
            )
        raise refusal(
            i,
            "the bits of an active float may pass through integer arithmetic",
            "the derivative of such arithmetic is not known, and zero would be wrong; an integer "
            "counts as such bits if nothing tells the fields of a record with both kinds apart",
            [
                "compute with floats, or stop the gradient with ignore_derivatives(x)",
                "keep integers and floats of records in arrays of their own, or assign fields item "
                "by item, r[i].x = …, not by slices",
            ],
            FloatBitsInInteger,
        )

    def _replaced_by_a_rule(self, i: Instruction) -> None:
        """Refuse a function with a rule that may replace the pointers that `i` reads."""
        memory = self.activity.memory
        read = memory.objects(i.operands[0])
        for write in memory.writes:
            call = write.instruction
            is_rule = call.opcode == "call" and self.calls.marked(call) is not None
            if is_rule and write.replaces_pointers and not read.isdisjoint(write.objects):
                raise refusal(
                    call,
                    "a function with a rule may replace an array in its argument, or make a list "
                    "or dictionary longer",
                    "its shadow would have to change with it, backwards too",
                    [
                        "write into the array: x.field[:] = …",
                        "leave that to the caller: return an array, and store it there",
                    ],
                    NotYetSupported,
                )

    def _is_mixed_up(self, i: Instruction) -> bool:
        """Whether an access is to memory whose layout is lost at a call: memory reached through
        pointers of a caller, or of which only a callee's summary is known.
        """
        if i.opcode not in {"load", "store"}:
            return False
        memory = self.activity.memory
        return any(
            (o.kind == "loaded" and o != UNKNOWN)
            or any(
                a.address is None and a.type.is_float and a.instruction in memory.called
                for a in self.types.accesses.get(o, ())
            )
            for o in memory.objects(i.operands[-1])
        )
