"""Soundness: programs for which no correct derivative can be made are refused.

Needs       what `analyse_activity` needs, and its Activity
Gives       `refuse_unsound`: raises for the first instruction that has no correct derivative
Invariants  A3 and A4 of `ir/analysis/activity.py`: programs that pass have no active value of a
            type without derivative, no bits of active floats in integers, no active data in
            constant or unknown memory, and no pointer to memory of which only part has a shadow
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from activerules.errors import (
    ActiveMemoryInConst,
    ActiverulesError,
    FloatBitsInInteger,
    MixedActivity,
    UnknownCall,
)
from activerules.ir.analysis.activity import (
    COPIES,
    Activity,
    Seeds,
    followed_by,
    holds_float,
    is_unknown_call,
    reachable_from_argument,
)
from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.hidden_bits import HiddenBits
from activerules.ir.analysis.memory.addresses import address_of
from activerules.ir.analysis.memory.called import CalledMemory
from activerules.ir.analysis.memory.objects import UNKNOWN, MemoryObject, root
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.types.clears import cuts_floats
from activerules.ir.analysis.types.partial_overlap import partly_overlapping
from activerules.ir.analysis.types.value_types import ValueTypes
from activerules.ir.derivatives.rulecall import CallArgument, CallInfo
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Constant, Instruction, Value
from activerules.ir.llvm.names import plain_name
from activerules.ir.llvm.refusal import refusal, shown
from activerules.ir.normal.effects import Explanation, effect_of, language, memory_intrinsic

_TOO_WIDE = {"x86_fp80", "fp128", "ppc_fp128"}


def refuse_unsound(
    activity: Activity, types: ValueTypes, returns: Returns, calls: EngineCalls, seeds: Seeds
) -> None:
    """Raise the first refusal of an instruction on a path to a successful return, if there is one.

    FloatBitsInInteger, ActiveMemoryInConst, MixedActivity, NotYetSupported, UnknownCall or
    UnsupportedIR.
    """
    check = _Check(activity, types, calls, seeds, HiddenBits(activity, types, calls, seeds))
    body = list(returns.instructions())
    for i in body:
        # other refusals may be mere consequences of what such a call might change
        check.unknown_call(i)
    for i in body:
        check(i)
    check.overlaps(body)
    check.passed_on(body, returns.flow)


@dataclass(frozen=True)
class _Check:
    """Refuses instructions whose derivative would be wrong."""

    activity: Activity
    types: ValueTypes
    calls: EngineCalls
    seeds: Seeds
    bits: HiddenBits

    def __call__(self, i: Instruction) -> None:
        if self.activity.is_active(i):
            self._type(i)
        match i.opcode:
            case "load":
                self._load(i)
            case "store":
                self._store(i)
            case "call":
                self._call(i)
            case "sitofp" | "uitofp" if i in self.activity.useful:
                self._operand_bits(i)
            case "bitcast" if i.type.is_float:
                self._operand_bits(i)
                if i in self.activity.useful and self.bits.is_unknown(i.operands[0]):
                    self.bits.refuse(i)
            case "inttoptr" if self.activity.has_shadow(i):
                self._hidden_pointer(i)
            case _:
                pass

    def overlaps(self, body: Sequence[Instruction]) -> None:
        """Refuse the first float of which another access may read or write only a part."""
        order = {i: n for n, i in enumerate(body)}
        found = [
            (i, other)
            for o in self.activity.active_memory
            for pair in partly_overlapping(o, self.types)
            for i, other in (pair, pair[::-1])
            if i in order and (i.opcode != "load" or self.activity.is_active(i))
        ]
        if found:
            i, other = min(found, key=lambda each: [order.get(x, len(order)) for x in each])
            raise refusal(
                i,
                "an access may share some bytes of an active float, but not all, with "
                f"`{shown(other)}`",
                "nothing tells that their offsets keep them apart, and part of a float has no "
                "derivative",
                ["access the memory with one type, or with offsets that are known"],
                FloatBitsInInteger,
            )

    def passed_on(self, body: Sequence[Instruction], flow: ControlFlow) -> None:
        """Refuse memory marked Const in which one call leaves active data, and which a later call
        of a function with a rule, or the same call in another iteration, may read.
        """
        passed = [
            (i, argument, lost)
            for i in body
            if i.opcode == "call" and (info := self.calls.marked(i)) is not None
            for argument in (() if info.inactive else info.arguments)
            if argument.takes_shadow and (lost := self._lost(i, argument))
        ]
        if not passed:
            return
        written = [(i, lost) for i, argument, lost in passed if argument.written]
        written += [
            (i, left) for i in body if i in self.activity.memory.called and (left := self._left(i))
        ]
        order = {i: n for n, i in enumerate(body)}
        for i, left in written:
            later = flow.reachable(i.owner, None)
            for reader, argument, read in passed:
                follows = reader.owner is i.owner and order[reader] > order[i]
                if (follows or reader.owner in later) and not left.isdisjoint(read):
                    error = refusal(
                        i,
                        "active data may be stored into memory marked Const, and read back by a "
                        f"function with a rule: argument {argument.name}",
                        "a Const array has no shadow, so its part of the derivative would be lost",
                        ["mark the array Duplicated and give it a zero shadow"],
                        ActiveMemoryInConst,
                    )
                    raise self._of_arguments(error, left)

    def _lost(self, i: Instruction, argument: CallArgument) -> frozenset[MemoryObject]:
        """The memory marked Const that may hold active data in an argument of a marked call."""
        facts = self.activity
        if argument.kind == "memory":
            reached = facts.memory.objects(i.operands[argument.pointer])
        else:
            reached = reachable_from_argument(i, argument, facts.memory)
        return frozenset() if reached & facts.active_memory else self._constant(reached)

    def _left(self, call: Instruction) -> frozenset[MemoryObject]:
        """The memory marked Const in which a function of the module may leave active data."""
        facts = self.activity
        is_varied = (
            facts.memory.called[call].summary.passes_data
            or not facts.varied.isdisjoint(call.operands)
            or not facts.varied_memory.isdisjoint(facts.memory.read_by(call))
        )
        changed = facts.memory.changed_by(call) - self.types.without_floats
        return self._constant(changed) if is_varied else frozenset()

    def _constant(self, objects: frozenset[MemoryObject]) -> frozenset[MemoryObject]:
        """Those objects marked Const that may hold active data."""
        matters = objects & self.activity.varied_memory & self.activity.useful_memory
        return frozenset(o for o in matters if root(o) in self.seeds.constant)

    def _type(self, i: Instruction) -> None:
        if not i.type.is_float and holds_float(i.type):
            raise refusal(
                i,
                "a struct or array of floats carries a derivative as one value",
                "the engine differentiates scalars and memory",
                ["pass the floats one by one, or through memory"],
            )
        if str(i.type) in _TOO_WIDE:
            raise refusal(
                i,
                f"an active value has the type {i.type}",
                "derivatives are computed in float and double",
                ["compute in double"],
            )

    def _operand_bits(self, i: Instruction) -> None:
        if self.bits.are_carried(i.operands[0]):
            self.bits.refuse(i)

    def _load(self, i: Instruction) -> None:
        pointer = i.operands[0]
        if i.type.is_float:
            if self.activity.is_active(i):
                self._shadowed(i, pointer)
                self._whole(i)
            is_hidden = UNKNOWN in self.activity.memory.objects(pointer)
            if is_hidden and i in self.activity.useful and not self._is_in_constant(pointer):
                self._hidden_pointer(i)
        elif i.type.is_pointer and self.activity.has_shadow(pointer):
            if self.types.touches_floats(i):
                self.bits.refuse(i)
            if self.activity.has_shadow(i):
                self._shadowed(i, pointer)

    def _is_in_constant(self, pointer: Value) -> bool:
        """Whether an address is an integer from constant memory with addresses of its own."""
        memory = self.activity.memory
        base = address_of(pointer, memory.named_types).base
        if not (isinstance(base, Instruction) and base.opcode == "inttoptr"):
            return False
        (number,) = base.operands
        if not (isinstance(number, Instruction) and number.opcode == "load"):
            return False
        table = memory.objects(number.operands[0])
        return bool(table) and table <= self.seeds.addresses

    def _store(self, i: Instruction) -> None:
        value, pointer = i.operands
        shadowed = self.activity.has_shadow(pointer)
        if value.type.is_float:
            self._store_float(i, shadowed)
        elif shadowed:
            if value.type.is_pointer and self._hands_over(pointer):
                self._handed_over(i, value)
            if self.bits.may_be_copied(i):
                raise refusal(
                    i,
                    "memory whose type is not known is copied as integers or pointers",
                    "if it holds floats, their derivative would be lost",
                    ["copy it as the type it has"],
                    FloatBitsInInteger,
                )
            if self.bits.may_be_pointer(i):
                self._hidden_pointer(i)
            if value.type.is_int:
                self._store_integer(i)

    def _store_float(self, i: Instruction, shadowed: bool) -> None:
        value, pointer = i.operands
        objects = self.activity.memory.objects(pointer)
        matters = not self.activity.useful_memory.isdisjoint(objects)
        if value in self.activity.varied and UNKNOWN in objects:
            self._hidden_pointer(i)
        if matters and (shadowed or self.activity.is_active(value)):
            self._shadowed(i, pointer)
            self._whole(i)

    def _whole(self, i: Instruction) -> None:
        """Refuse a load or store of a float where the floats are others."""
        if self.types.cuts_floats(i):
            self.bits.refuse(i)
        if self.types.is_reinterpreted(i):
            raise refusal(
                i,
                "floats are accessed as floats of another precision",
                "their bits are taken for those of other numbers, which has no derivative",
                ["convert the numbers: x.astype(np.float32) in place of x.view(np.float32)"],
                FloatBitsInInteger,
            )

    def _store_integer(self, i: Instruction) -> None:
        value, pointer = i.operands
        if self.types.cuts_floats(i) or (
            value in self.types.float_bits
            and (self.bits.are_carried(value) or not self._is_declared_integer(i))
        ):
            self.bits.refuse(i)
        if self.types.touches_floats(i):
            self._shadowed(i, pointer)

    def _is_declared_integer(self, store: Instruction) -> bool:
        """Whether the caller declares that there is no float where a store acts."""
        declared = self.types.as_declared.issuperset(
            self.activity.memory.objects(store.operands[1])
        )
        return declared and not self.types.touches_floats(store)

    def _hands_over(self, pointer: Value) -> bool:
        """Whether the memory stored there is returned to the caller together with its shadow."""
        return not self.seeds.results.isdisjoint(self.activity.memory.objects(pointer))

    def _handed_over(self, i: Instruction, value: Value) -> None:
        """Refuse to return memory without a shadow."""
        bare = self.activity.memory.objects(value) - self.activity.active_memory
        if bare and all(o.kind == "global" for o in bare):
            raise refusal(
                i,
                f"a result may lead to constants of the program ({_names(bare)})",
                "a result has a shadow, to which the caller may add, and constants have none",
                [
                    "a copy of the constant array: table.copy()",
                    "a number in place of a text that is chosen when the program runs",
                ],
                MixedActivity,
            )
        if bare and all(root(o) in self.seeds.constant for o in bare):
            error = refusal(
                i,
                f"a result may lead to memory marked Const ({_names(bare)})",
                "a result has a shadow, to which the caller may add, and a Const array has none",
                ["return a copy of the array: x.copy()"],
                ActiveMemoryInConst,
            )
            raise self._of_arguments(error, bare)
        self._shadowed(i, value)

    def _hidden_pointer(self, i: Instruction) -> None:
        raise refusal(
            i,
            "an address made from an integer leads to memory that may be active",
            "which memory it is, and where its shadow lies, is not known",
            ["pass the array itself"],
            MixedActivity,
        )

    def _shadowed(self, i: Instruction, pointer: Value) -> None:
        self._all_shadowed(i, self.activity.memory.objects(pointer))

    def _all_shadowed(self, i: Instruction, objects: frozenset[MemoryObject]) -> None:
        bare = [o for o in objects if o not in self.activity.active_memory]
        if not bare:
            return
        constant = [o for o in bare if o in self.seeds.constant]
        stores = i.opcode == "store" or memory_intrinsic(i) in COPIES
        if stores and constant and len(bare) == len(objects):
            error = refusal(
                i,
                "active data is stored into memory marked Const and read back",
                "a Const array has no shadow, so its part of the derivative would be lost",
                ["mark the array Duplicated and give it a zero shadow"],
                ActiveMemoryInConst,
            )
        else:
            error = refusal(
                i,
                "a pointer may lead to active memory or to memory without a shadow "
                f"({_names(bare)})",
                "whether there is a shadow to add to is not known when the derivative is compiled",
                ["mark both arrays Duplicated (a shadow of zeros for the constant one)"],
                MixedActivity,
            )
        raise self._of_arguments(error, bare)

    def _of_arguments(
        self, error: ActiverulesError, bare: Iterable[MemoryObject]
    ) -> ActiverulesError:
        """The error, with the groups of the constant arguments to which the memory belongs.

        Of memory that the function allocates, a shadow can be made, once one of a pointer's other
        targets has one.
        """
        roots = [root(o) for o in bare]
        if all(o in self.seeds.constant or o.is_local for o in roots):
            error.groups = tuple(o.key for o in roots if not o.is_local)
        return error

    def _call(self, i: Instruction) -> None:
        if i in self.activity.memory.called:
            self._derived_call(i, self.activity.memory.called[i])
            return
        effect = effect_of(i.callee_name)
        if effect is not None and effect.no_data is not None:
            self._marked_memory(i, effect.no_data)
        for pointer in self._pointers_used(i):
            if self.activity.has_shadow(pointer):
                self._shadowed(i, pointer)
        kind = memory_intrinsic(i)
        if kind == "memset" and self.activity.has_shadow(i.operands[0]):
            self._cleared(i)
        if kind in COPIES:
            self._copied(i)
        info = self.calls.marked(i)
        if info is not None and not info.inactive:
            self._passed_to_rule(i, info)

    def _passed_to_rule(self, i: Instruction, info: CallInfo) -> None:
        if any(map(self.bits.are_carried, i.operands)):
            self.bits.refuse(i)
        for argument in info.arguments:
            if argument.kind == "object":
                self._object(i, argument)

    def _copied(self, copy: Instruction) -> None:
        """Refuse to copy active data from or to memory without a shadow."""
        facts = self.activity
        to, source = (facts.memory.objects(pointer) for pointer in copy.operands[:2])
        if facts.varied_memory.isdisjoint(source) or facts.useful_memory.isdisjoint(to):
            return
        for objects in (to, source):
            self._all_shadowed(copy, objects)

    def _cleared(self, clear: Instruction) -> None:
        if cuts_floats(clear, self.types):
            raise refusal(
                clear,
                "a part of an active float is cleared",
                "a float that is partly overwritten has no derivative",
                ["clear whole floats"],
                FloatBitsInInteger,
            )

    def _marked_memory(self, mark: Instruction, words: Explanation) -> None:
        """Refuse active memory that is reachable from a value which is to carry no derivative."""
        facts = self.activity
        matters = facts.varied_memory & facts.useful_memory
        if not matters.isdisjoint(facts.memory.reachable_from(mark.operands[0])):
            raise _explained(mark, words)

    def _object(self, i: Instruction, argument: CallArgument) -> None:
        """Refuse an object, passed to a rule, of which only part has a shadow."""
        facts = self.activity
        if facts.active_memory.isdisjoint(reachable_from_argument(i, argument, facts.memory)):
            return
        # a shadow made by the caller is complete: no need to follow its pointers
        reached = closure(
            (o for k in argument.pointers for o in facts.memory.objects(i.operands[k])),
            lambda o: facts.memory.pointees(o) if o.is_local else (),
        )
        bare = {o for o in reached - facts.active_memory if not self._is_nothing(o)}
        if bare:
            error = refusal(
                i,
                f"argument {argument.name} of a function with a rule holds active data, and "
                f"memory without a shadow ({_names(bare)})",
                "its rule is given the object with a shadow of everything in it",
                [
                    "put copies of constant arrays into the object: x.copy()",
                    "mark the arrays Duplicated (shadows of zeros for the constant ones)",
                ],
                MixedActivity,
            )
            raise self._of_arguments(error, bare)

    def _is_nothing(self, o: MemoryObject) -> bool:
        """Whether the object stands for the targets of pointers in memory that is declared to hold
        none.
        """
        holder = root(o)
        declared = (
            holder in self.types.declared and holder not in self.activity.memory.caller.targets
        )
        return o.kind == "loaded" and declared

    def _derived_call(self, i: Instruction, called: CalledMemory) -> None:
        """Refuse a call by which a callee reaches active memory without its shadow."""
        facts = self.activity
        passed = {called.fresh}
        for objects in followed_by(called).values():
            passed |= objects
            if not facts.active_memory.isdisjoint(objects):
                self._all_shadowed(i, objects)
        matters = facts.varied_memory & facts.useful_memory
        used = facts.memory.read_by(i) | facts.memory.changed_by(i)
        unseen = (facts.memory.read_by(i) & matters) - facts.active_memory
        if unseen:
            self._all_shadowed(i, unseen)
        if not facts.active_memory.isdisjoint(used - passed):
            raise refusal(
                i,
                f"{plain_name(i.callee_name or '')} may reach active memory that it is not given "
                f"({_names(facts.active_memory & (used - passed))})",
                "it gets there by a global, or an address passed as an integer, neither of which "
                "leads to its shadow",
                ["pass the memory as an argument"],
                MixedActivity,
            )
        used_as_floats = called.summary.takes_bits | {
            k for k, access in called.summary.keeps_bits if self.types.may_keep_float(i, access)
        }
        if self.bits.are_passed(i) or any(
            self.bits.is_unknown(i.operands[k]) for k in used_as_floats
        ):
            self.bits.refuse(i)

    def _pointers_used(self, call: Instruction) -> list[Value]:
        """Pointers whose shadow memory the reverse of a call reads or writes."""
        info = self.calls.marked(call)
        if info is not None and not info.inactive:
            return [call.operands[a.pointer] for a in info.arguments if a.kind == "memory"]
        if memory_intrinsic(call) is not None:
            return [o for o in call.operands[:2] if o.type.is_pointer]
        return []

    def unknown_call(self, i: Instruction) -> None:
        """Refuse active data that flows into a function of which nothing is known."""
        if i in self.activity.memory.called or not is_unknown_call(i, self.calls):
            return
        reached = self.activity.memory.reached(i)
        varied = any(o in self.activity.varied for o in i.operands)
        if varied or not reached.isdisjoint(self.activity.varied_memory) or self.bits.are_passed(i):
            name, why = _unknown(i)
            known = next((why for start, why in language().refused if name.startswith(start)), None)
            if known is not None:
                raise _explained(i, known)
            error = refusal(
                i,
                f"active data flows into {name}, which has no derivative",
                f"{why}, and it has no rule",
                [
                    "give it a rule: @ar.augmented_primal(f) and @ar.reverse(f)",
                    "declare that no derivative flows through it: ar.inactive(f)",
                ],
                UnknownCall,
            )
            error.names_callee = True
            raise error


def _explained(i: Instruction, words: Explanation) -> ActiverulesError:
    return refusal(i, words.what, words.why, list(words.instead), words.error)


def _unknown(call: Instruction) -> tuple[str, str]:
    """A name for the function that is called, and why nothing is known of it."""
    if call.callee_name is not None:
        if "..." in str(call.attributes.get("function_type", "")):
            return call.callee_name, "it takes a variable number of arguments"
        return call.callee_name, "its code is not visible (external, weak, or not to be inlined)"
    if isinstance(call.callee, Constant) and "asm" in call.callee.text:
        return "inline assembly", "the engine knows LLVM IR alone"
    return "a function pointer", "which function that is is not known when the derivative is made"


def _names(objects: Iterable[MemoryObject]) -> str:
    return ", ".join(sorted(f"{o.kind} {getattr(o.key, 'name', o.key)}" for o in objects))
