"""How many references are held at each place of a function, as far as that comes out.

Needs       a Function of Numba's convention, and its module
Gives       `known_needs`: what is known, by groups of pointers; `Holdings`: what must be dropped
            where the function is left at a place that has no failing way of its own;
            `drop_references`: the code for that
Invariants  K1  what is not certain is not dropped

A derivative may end where its primal does not: memory for the tape runs out, or the stack. What the
primal holds there nobody else would drop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from activerules.ir.analysis.returns import Returns
from activerules.ir.builder import Builder
from activerules.ir.cfg import ControlFlow
from activerules.ir.held_containers import Containers, is_container, previous
from activerules.ir.held_counts import Held, least
from activerules.ir.held_needs import Needs, Rest
from activerules.ir.held_pointers import DROPS, DROPS_NEW, Pointers, is_numbas
from activerules.ir.held_results import Results
from activerules.ir.held_ways import known_ways, plain_ways
from activerules.ir.model import Block, Function, Instruction, Module, Value
from activerules.ir.types import PTR, VOID

_ATTEMPTS = (
    (plain_ways, True),
    (plain_ways, False),
    (known_ways, True),
    (known_ways, False),
)
"""Ways to tell what is held, the cheapest first; whether it may go by the condition of a branch."""

_FREES = {"NRT_Allocate": "NRT_Free", "malloc": "free"}
"""What frees memory that is not counted."""


@dataclass(frozen=True)
class Holding:
    """A pointer, how many references are held to it, and what drops one."""

    value: Value
    held: Held
    by: str = DROPS[0]


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of pointers that flow together; of those in `wrong` it is nothing."""

    group: frozenset[Value]
    wrong: set[Value]
    needs: Needs
    left: list[Rest]

    def rests(self) -> list[Rest]:
        """What is held of them and not needed, by edge."""
        return [r for r in self.left if r.value in self.group]


def known_needs(pointers: Pointers, exit_block: Block) -> list[Known]:
    """What flows together is decided together, by the first of the attempts that comes out."""
    found: dict[frozenset[Value], Known] = {}
    todo = pointers.groups
    for make, by_condition in _ATTEMPTS if todo else ():
        values = {value for group in todo for value in group}
        needs = Needs(pointers, exit_block, make(pointers.flow), values, by_condition)
        wrong = needs.surprises()
        rests = needs.rests(wrong)
        for group in todo:
            if group not in found or len(wrong & group) < len(found[group].wrong):
                found[group] = Known(group, wrong & group, needs, rests)
        todo = [group for group in todo if wrong & group]
        if not todo:
            break
    return list(found.values())


class Holdings:
    """What a function holds; found out when it is first asked for."""

    def __init__(
        self, function: Function, module: Module, flow: ControlFlow, returns: Returns
    ) -> None:
        self.function, self.module = function, module
        self.flow, self.returns = flow, returns

    def before(self, at: Instruction, *, begun: bool = True) -> list[Holding]:
        """What is held before an instruction. Without `begun`, that is where no call of the program
        may fail: what has just been made, and only those other containers that are whole.
        """
        if not is_numbas(self.function):
            return []
        found: list[Holding] = []
        new = None if begun else previous(at)
        if new is not None and new.callee_name in _FREES:
            found.append(Holding(new, {None: 1}, _FREES[new.callee_name]))
        for needs, values in self._known:
            states = needs.before(at)
            for value in values:
                held = _certain([state.get(value, {}) for state in states])
                if held and needs.pointers.is_there(value, at.owner):
                    if value is new and is_container(value):
                        found.append(Holding(value, held, DROPS_NEW))
                    elif begun or self._may_drop(value, at):
                        found.append(Holding(value, held))
        return found

    def _may_drop(self, value: Value, at: Instruction) -> bool:
        containers = self._containers
        return not containers.may_be_one(value) or containers.is_whole(value, at)

    @cached_property
    def _pointers(self) -> Pointers:
        own = {f.name: f for f in self.module.functions.values() if is_numbas(f)}
        return Pointers(self.function, own, self.flow, Results(self.module).is_counted)

    @cached_property
    def _containers(self) -> Containers:
        return Containers(self._pointers, self.flow, self.returns.live)

    @cached_property
    def _known(self) -> list[tuple[Needs, list[Value]]]:
        """The pointers of which something is known, in order."""
        known = known_needs(self._pointers, self.returns.exit)
        right = {value for one in known for value in one.group - one.wrong}
        made = [*self.function.arguments, *self.function.instructions()]
        order = [value for value in made if value in right]
        return [(one.needs, [v for v in order if v in one.group]) for one in known]


def _certain(found: list[Held | None]) -> Held | None:
    """What is held on all ways."""
    held = [one for one in found if one is not None]
    if not held or len(held) < len(found):
        return None
    if all(one == held[0] for one in held):
        return held[0]
    count = min(map(least, held))
    return {None: count} if count > 0 else None


def drop_references(
    b: Builder,
    pointer: Value,
    held: Held,
    value_of: Callable[[Value], Value] = lambda v: v,
    by: str = DROPS[0],
) -> None:
    """Drop what is held of a pointer; `value_of` gives what stands for a condition."""
    for _ in range(least(held)):
        b.call(by, VOID, [pointer])
    for condition, n in held.items():
        if condition is None:
            continue
        nothing = b.const(PTR, None)
        chosen = (pointer, nothing) if n > 0 else (nothing, pointer)
        for _ in range(abs(n)):
            b.call(by, VOID, [b.select(value_of(condition), *chosen)])
