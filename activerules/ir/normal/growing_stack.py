"""Stack memory whose size is known only at run time is allocated on the heap.

Needs       a module after LLVM's passes
Gives       the module, changed in place: an `alloca` of variable size, if it is known where its
            memory ends, becomes a call of `malloc` (`aligned_alloc`), with a `free` where the stack
            is restored, or before the return. One of fixed size outside the entry block moves
            there; from a loop only if no iteration can reach the memory of an earlier one
Invariants  G1  memory is released where the stack would have released it, and only if it was
                allocated
            G2  `normal_form` refuses what is left: memory allocated in a loop that does not restore
                the stack, or on only some of the paths to its end

The reverse sweep needs such memory when the stack is gone; heap memory is kept for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import ControlFlow, control_flow_if_reducible
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Function, Instruction, Module, Value
from activerules.ir.llvm.types import I64, PTR, VOID, Type, size_of
from activerules.ir.normal.effects import memory_intrinsic

_MALLOC_ALIGNMENT = 16


def from_heap(module: Module) -> None:
    """Move stack memory of variable size to the heap; see the module docstring."""
    for function in module.defined():
        late = [
            i for block in function.blocks[1:] for i in block.instructions if i.opcode == "alloca"
        ]
        late += [i for i in function.entry.instructions if i.opcode == "alloca" and _varies(i)]
        if late:
            _change(function, late, module)


def _varies(alloca: Instruction) -> bool:
    return any(integer_of(o) is None for o in alloca.operands)


def _change(function: Function, late: list[Instruction], module: Module) -> None:
    flow = control_flow_if_reducible(function)
    if flow is None:
        return
    stack = _Stack(function, flow, module)
    for alloca in late:
        if not _varies(alloca):
            stack.hoist(alloca)
        else:
            stack.replace(alloca)
    stack.forget()


class _Stack:
    """Moves allocations of a function from the stack to the heap, with the frees they need."""

    def __init__(self, function: Function, flow: ControlFlow, module: Module) -> None:
        self.function, self.flow, self.module = function, flow, module
        self.namer = Namer("heap", function.local_names())
        self.saves = [i for i in function.instructions() if _calls(i, "llvm.stacksave")]

    def hoist(self, alloca: Instruction) -> None:
        block = alloca.owner
        if block in self.flow.position and self._ends_with_its_iteration(alloca):
            block.instructions.remove(alloca)
            self.function.entry.insert(0, alloca)

    def _ends_with_its_iteration(self, alloca: Instruction) -> bool:
        """Whether no later iteration can have its address."""
        loop = self.flow.loop_of(alloca.owner)
        if loop is None:
            return True
        headers = {outer.header for outer in loop.ancestors()}
        derived = self._computed_from([alloca], _OTHER_ADDRESSES)
        using = [i for i in self.function.instructions() if not derived.isdisjoint(i.operands)]
        return not any(i.opcode == "phi" and i.owner in headers for i in using) and all(
            i in derived or _only_goes_to_memory(i, derived) for i in using
        )

    def replace(self, alloca: Instruction) -> None:
        if alloca.owner not in self.flow.position:
            return
        ends = self._ends(alloca)
        if not ends:
            return
        inserted: list[Instruction] = []
        pointer = self._allocated(Builder(inserted, self.namer), alloca)
        alloca.owner.insert(alloca.owner.instructions.index(alloca), *inserted)
        for block in self.function.blocks:
            block.instructions = [i for i in block.instructions if i is not alloca]
            block.instructions = [
                i for i in block.instructions if not _is_lifetime_marker(i, alloca)
            ]
            for i in block.instructions:
                i.operands = [pointer if o is alloca else o for o in i.operands]
        for end in ends:
            inserted = []
            self._call(Builder(inserted, self.namer), "free", VOID, [pointer])
            end.owner.insert(end.owner.instructions.index(end), *inserted)

    def _ends(self, alloca: Instruction) -> list[Instruction]:
        """The instructions where its memory ends; none if that is not known."""
        before = [save for save in self.saves if self._runs_before(save, alloca)]
        for save in sorted(before, key=self._position, reverse=True):
            ends = [
                i
                for i in self.function.instructions()
                if _calls(i, "llvm.stackrestore") and i.operands[0] is save
            ]
            if ends:
                return ends if all(self._runs_before(alloca, end) for end in ends) else []
        ends = [i for i in self.function.instructions() if i.opcode == "ret"]
        if self.flow.loop_of(alloca.owner) is not None:
            return []
        return ends if all(self._runs_before(alloca, end) for end in ends) else []

    def _position(self, i: Instruction) -> tuple[int, int]:
        return self.flow.position[i.owner], i.owner.instructions.index(i)

    def _runs_before(self, a: Instruction, b: Instruction) -> bool:
        if b.owner not in self.flow.position or a.owner not in self.flow.position:
            return False
        if a.owner is b.owner:
            return self._position(a) < self._position(b)
        return self.flow.dominates(a.owner, b.owner)

    def _allocated(self, b: Builder, alloca: Instruction) -> Value:
        each = size_of(alloca.attributes["allocated"], self.module.types)
        count = alloca.operands[0]
        wide = count if count.type == I64 else b.cast("zext", count, I64)
        size = b.binary("mul", wide, b.const(I64, each))
        alignment = alloca.attributes.get("align", 1)
        if alignment <= _MALLOC_ALIGNMENT:
            return self._call(b, "malloc", PTR, [size])
        return self._call(b, "aligned_alloc", PTR, [b.const(I64, alignment), size])

    def _call(self, b: Builder, name: str, result: Type, operands: list[Value]) -> Value:
        self.module.declare(name, result, operands)
        return b.call(name, result, operands)

    def forget(self) -> None:
        """Remove saves and restores of the stack if nothing of variable size is left on it."""
        if any(i.opcode == "alloca" and _varies(i) for i in self.function.instructions()):
            return
        # where paths meet, LLVM merges the stack pointers that they have saved
        states = self._computed_from(self.saves, _JOINS)
        using = [i for i in self.function.instructions() if not states.isdisjoint(i.operands)]
        if all(i in states or _calls(i, "llvm.stackrestore") for i in using):
            removed = states.union(using)
            for block in self.function.blocks:
                block.instructions = [i for i in block.instructions if i not in removed]

    def _computed_from(self, values: Iterable[Value], opcodes: set[str]) -> set[Value]:
        """The values, and all that instructions with these opcodes compute from them."""
        derived = set(values)
        count = 0
        while count < len(derived):
            count = len(derived)
            for i in self.function.instructions():
                if i.opcode in opcodes and not derived.isdisjoint(i.operands):
                    derived.add(i)
        return derived


_JOINS = {"phi", "select", "freeze"}
_OTHER_ADDRESSES = {"getelementptr", *_JOINS}


def _only_goes_to_memory(i: Instruction, pointers: set[Value]) -> bool:
    """Whether an instruction uses pointers only to read or write memory there."""
    if i.opcode == "store":
        return i.operands[0] not in pointers
    return i.opcode == "load" or memory_intrinsic(i) is not None or _calls(i, "llvm.lifetime.")


def _calls(i: Instruction, prefix: str) -> bool:
    return i.opcode == "call" and (i.callee_name or "").startswith(prefix)


def _is_lifetime_marker(i: Instruction, alloca: Instruction) -> bool:
    """Whether an instruction marks the lifetime of the memory, which only stack memory may have."""
    return _calls(i, "llvm.lifetime.") and alloca in i.operands
