"""Of which pointers it can be said how many references are held to them.

Needs       a Function of Numba's convention, and the names of all functions of that convention
Gives       `Pointers`: `tracked`, the pointers of which something is said, and as `groups` those
            that phis make one; what is held of one when it is made
Invariants  P1  of a pointer that goes to code that may keep it nothing is said
            P2  what a call returns is there only where its status was found to be 0

Arguments are lent. What is allocated is held once, and what a call returns at most once; what is
read from memory belongs to the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from activerules.ir.analysis.returns import is_zero_on
from activerules.ir.cfg import ControlFlow
from activerules.ir.held_counts import Held
from activerules.ir.model import Argument, Block, Constant, Function, Instruction, Value
from activerules.ir.rulecall import MARKED_PREFIX
from activerules.ir.runtime_calls import GIVES_ROOM_BACK, MAKES_ROOM, NOCOPY_RESHAPE, effect_of
from activerules.ir.types import I32, PTR, FloatType, IntType

TAKES = "NRT_incref"
DROPS_NEW = "activerules.drop_new"
"""Drops a reference without that a destructor runs."""
DROPS = ("NRT_decref", "activerules.release", DROPS_NEW)
CHOICES = ("phi", "select")
NOTHING = ("null", "undef", "poison")


def is_numbas(function: Function) -> bool:
    """Whether a function has Numba's convention: arguments are lent, the result is a status.

    A derivative in forward mode has a second place for the result.
    """
    return function.result == I32 and places_of(function) > 0


def places_of(function: Function) -> int:
    """How many arguments are places for the result: those before that of the exception."""
    # LLVM numbers names that are taken: functions that call themselves are linked in
    names = [a.name.split(".")[0].strip('"') for a in function.arguments[:6]]
    if not names or names[0] != "retptr" or "excinfo" not in names:
        return 0
    return names.index("excinfo")


def counted(i: Instruction) -> Value | None:
    """The pointer whose references a call counts."""
    if i.opcode == "call" and i.callee_name in (TAKES, *DROPS):
        return i.operands[0]
    return None


def is_allocation(i: Instruction) -> bool:
    """Whether an instruction makes memory whose references are counted."""
    effect = effect_of(i.callee_name) if i.opcode == "call" else None
    return effect is not None and effect.allocates and effect.counted


def base_of(pointer: Value) -> Value:
    """What a pointer points into."""
    while isinstance(pointer, Instruction) and pointer.opcode == "getelementptr":
        pointer = pointer.operands[0]
    return pointer


def chosen_from(value: Value) -> list[Value]:
    """The pointers that a phi or a `select` is one of."""
    if not isinstance(value, Instruction) or value.opcode not in CHOICES:
        return []
    return value.operands[value.opcode == "select" :]


def gives_data(i: Instruction) -> bool:
    """Whether a call gives the data of the memory in operand 0, at most resized."""
    effect = effect_of(i.callee_name) if i.opcode == "call" else None
    return effect is not None and effect.gives_data


class Pointers:
    """See the module docstring."""

    def __init__(
        self,
        function: Function,
        own: dict[str, Function],
        flow: ControlFlow,
        is_result: Callable[[Instruction, Instruction], bool],
    ) -> None:
        self.own, self.flow = own, flow
        self._is_counted_result = is_result
        self.uses: dict[Value, list[Instruction]] = {}
        for i in function.instructions():
            for o in i.operands:
                self.uses.setdefault(o, []).append(i)
        self.tracked: set[Value] = set()
        self.groups: list[frozenset[Value]] = []
        self._successes: dict[Value, tuple[Instruction, Block] | None] = {}
        self._scratch: dict[Value, bool] = {}
        seen: set[Value] = set()
        for i in function.instructions():
            pointer = i if is_allocation(i) or self._is_result(i) else counted(i)
            if pointer is not None and pointer not in seen:
                self._track(pointer, seen)

    def becoming(self, values: Iterable[Value]) -> set[Value]:
        """These, and what may be one of them."""
        found: set[Value] = set()
        work = [*values]
        while work:
            value = work.pop()
            if value in self.tracked and value not in found:
                found.add(value)
                work += [i for i in self.uses.get(value, ()) if i.opcode in CHOICES]
        return found

    def _track(self, start: Value, seen: set[Value]) -> None:
        group: set[Value] = set()  # with all that phis make one with it
        work = [start]
        known = True
        while work:
            value = work.pop()
            if value in group or (isinstance(value, Constant) and value.text in NOTHING):
                continue
            group.add(value)
            known = known and self._is_known(value)
            work += chosen_from(value)
            work += [i for i in self.uses.get(value, ()) if i.opcode in CHOICES]
        seen |= group
        if known:
            self.tracked |= group
            self.groups.append(frozenset(group))

    def _is_known(self, value: Value) -> bool:
        if isinstance(value, Instruction):
            made = value.opcode in (*CHOICES, "load") or is_allocation(value)
        else:
            made = isinstance(value, Argument)
        return made and all(self._stays(value, use) for use in self.uses.get(value, ()))

    def _stays(self, value: Value, use: Instruction) -> bool:
        match use.opcode:
            case "phi" | "icmp" | "store":
                return True
            case "select":
                return self.success(value) is None or self.is_there(value, use.owner)
            case "call":
                room = use.callee_name in (MAKES_ROOM, GIVES_ROOM_BACK)
                return room or counted(use) is not None or gives_data(use) or self.is_call(use)
            case _:
                return False

    def is_call(self, i: Instruction) -> bool:
        """Whether it is a call by Numba's convention."""
        name = i.callee_name if i.opcode == "call" else None
        return name is not None and (name in self.own or name.startswith(MARKED_PREFIX))

    # --- what a call has returned ---

    def success(self, value: Value) -> Block | None:
        """The block where it is known that the call succeeded that returns what is loaded."""
        found = self._returned(value)
        return None if found is None else found[1]

    def _is_result(self, i: Instruction) -> bool:
        """Whether a call has returned the pointer, and references to it are counted."""
        found = self._returned(i) if i.type == PTR else None
        return found is not None and self._is_counted_result(i, found[0])

    def _returned(self, value: Value) -> tuple[Instruction, Block] | None:
        """The call whose result is loaded, and the block where it is known that it succeeded."""
        if not isinstance(value, Instruction) or value.opcode != "load":
            return None
        if value not in self._successes:
            self._successes[value] = self._success(value)
        return self._successes[value]

    def is_there(self, value: Value, block: Block) -> bool:
        """Whether a value is what it seems in a block: a call that failed has returned nothing."""
        success = self.success(value)
        return success is None or self.flow.dominates(success, block)

    def _success(self, load: Instruction) -> tuple[Instruction, Block] | None:
        place = base_of(load.operands[0])
        if not isinstance(place, Instruction) or place.opcode != "alloca":
            return None
        calls: list[Instruction] = []
        for use in self._uses_of_place(place):
            if self.is_call(use) and any(base_of(o) is place for o in self._results(use)):
                calls.append(use)
            elif not _is_harmless(use):
                return None
        if len(calls) != 1:
            return None
        (call,) = calls
        block = call.owner
        behind = load.owner is not block or _index(load) > _index(call)
        if not behind or not self.flow.dominates(block, load.owner):
            return None
        found = [
            target
            for test in self.uses.get(call, ())
            if test.opcode == "icmp"
            for branch in self.uses.get(test, ())
            for target in branch.blocks
            if branch.opcode == "br"
            and is_zero_on(branch, target, call)
            and self.flow.predecessors.get(target) == [branch.owner]
        ]
        if len(found) != 1:
            return None
        (target,) = found
        # before the status is looked at it may be read, but not counted
        before = self.flow.dominates(load.owner, target)
        known = before or self.flow.dominates(target, load.owner)
        return (call, target) if known else None

    def _results(self, call: Instruction) -> list[Value]:
        callee = self.own.get(call.callee_name or "")
        return call.operands[: 1 if callee is None else places_of(callee)]

    def _uses_of_place(self, place: Instruction) -> Iterator[Instruction]:
        for use in self.uses.get(place, ()):
            if use.opcode == "getelementptr":
                yield from self._uses_of_place(use)
            else:
                yield use

    def hands_over(self, store: Instruction) -> bool:
        """Whether a reference may be found again where a pointer is stored: not on the stack, in a
        place where no pointer is read.
        """
        place = base_of(store.operands[1])
        if place not in self._scratch:
            self._scratch[place] = (
                isinstance(place, Instruction)
                and place.opcode == "alloca"
                and all(_reads_no_pointer(i, place) for i in self._uses_of_place(place))
            )
        return not self._scratch[place]

    # --- what is held ---

    def sources(self, value: Value) -> frozenset[Value]:
        """What a value may be that is not lent."""
        found: set[Value] = set()
        work = [value]
        while work:
            one = work.pop()
            if one not in found:
                found.add(one)
                work += chosen_from(one)
        return frozenset(i for i in found if isinstance(i, Instruction) and i.opcode not in CHOICES)

    def expected(self, value: Value) -> tuple[Held, ...]:
        """What may be held of what has just been made, lent or read."""
        if isinstance(value, Instruction) and is_allocation(value):
            return ({None: 1},)
        return ({}, {None: 1}) if self.success(value) else ({},)


def _index(i: Instruction) -> int:
    return i.owner.instructions.index(i)


def _reads_no_pointer(use: Instruction, place: Value) -> bool:
    """Whether an access of a place on the stack takes no pointer from it, nor its own away."""
    if use.opcode == "load":
        return isinstance(use.type, IntType | FloatType)
    if use.opcode == "store":
        return base_of(use.operands[0]) is not place
    name = use.callee_name or ""
    return name == NOCOPY_RESHAPE or name.startswith(("llvm.lifetime.", "llvm.memset."))


def _is_harmless(use: Instruction) -> bool:
    """Whether an access of a place leaves in it what a call has returned, or nothing at all."""
    if use.opcode == "store":
        return isinstance(use.operands[0], Constant)
    name = use.callee_name or ""
    return use.opcode == "load" or name.startswith(("llvm.lifetime.", "llvm.memset."))
