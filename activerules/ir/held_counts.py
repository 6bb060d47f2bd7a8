"""How many references are held at a place, also as far as that goes by a condition.

Needs       what is held behind an edge, a branch or a `select`
Gives       what is held before it
Invariants  C1  on every way on it is as many, with the conditions as they are on this way
            C2  in doubt it is not known

A value that may be None is memory and a flag: whether a reference is held goes by the flag, which
is known where a branch goes by it, and where a phi has a constant for it.
"""

from __future__ import annotations

from activerules.ir.constants import number_of
from activerules.ir.model import Block, Constant, Instruction, Value

Held = dict[Value | None, int]
"""How many references are held, always (None) or if a condition is true as well."""

State = dict[Value, Held | None]
"""What is held of each value; nothing if not in it, None if that is not known."""

_MOST = 64
"""More references than this are not counted: they would grow with every round."""


def plus(one: Held | None, other: Held | None, sign: int = 1) -> Held | None:
    """The sum, or with -1 the difference."""
    if one is None or other is None:
        return None
    total = {c: one.get(c, 0) + sign * other.get(c, 0) for c in {**one, **other}}
    if any(abs(n) > _MOST for n in total.values()):
        return None
    return {c: n for c, n in total.items() if n != 0}


def add(state: State, value: Value, held: Held | None) -> None:
    """Note that more is held of a value, in place; of one of two, if a `select` chooses."""
    if isinstance(value, Instruction) and value.opcode == "select":
        for one, its_share in _shares(value, held):
            add(state, one, its_share)
        return
    total = plus(state.pop(value, {}), held)
    if total != {}:
        state[value] = total


def _shares(i: Instruction, held: Held | None) -> list[tuple[Value, Held | None]]:
    """What is held of the two that a `select` chooses from."""
    condition, one, other = i.operands
    if not held:
        return [(one, held), (other, held)]
    if set(held) != {None} or isinstance(condition, Constant):
        return [(one, None), (other, None)]
    count = held[None]
    return [(one, {condition: count}), (other, {None: count, condition: -count})]


def over(source: Block, target: Block, entering: State) -> State:
    """What is held before an edge, by what is held behind it."""
    # at once: the value of a phi may be another phi, as it was before
    before: dict[Value, Value] = {}
    for phi in target.phis:
        before[phi] = dict(zip(phi.blocks, phi.operands, strict=True))[source]
    state: State = {}
    for value, held in entering.items():
        renamed: Held | None = None if held is None else {}
        for condition, count in (held or {}).items():
            if condition is not None:
                condition = before.get(condition, condition)
            renamed = plus(renamed, _given(condition, count))
        add(state, before.get(value, value), renamed)
    return state


def _given(condition: Value | None, count: int) -> Held | None:
    """As many as `count` if a condition is true."""
    if not isinstance(condition, Constant):
        return {condition: count}
    truth = number_of(condition)
    return None if truth is None else {None: count} if truth else {}


def condition_of(branch: Instruction) -> Value | None:
    """What a branch goes by, if that is a value: the first block is next if it is true."""
    two = branch.opcode == "br" and len(branch.blocks) == 2
    if not two or branch.blocks[0] is branch.blocks[1]:
        return None
    return None if isinstance(branch.operands[0], Constant) else branch.operands[0]


def assuming(held: Held, condition: Value | None, truth: bool) -> Held:
    """What is held where it is known whether a condition is true."""
    if condition is None or condition not in held:
        return held
    rest = {c: n for c, n in held.items() if c is not condition}
    return (plus(rest, {None: held[condition]}) or {}) if truth else rest


def agreed(one: State, other: State, condition: Value | None) -> State:
    """What must be held before a branch, by what must be held where a condition is true, and where
    it is not; without a condition as many as either way needs.
    """
    state: State = {}
    for value in {**one, **other}:
        first, second = one.get(value, {}), other.get(value, {})
        add(state, value, _agreed(first, second, condition))
    return state


def _agreed(first: Held | None, second: Held | None, condition: Value | None) -> Held | None:
    if first is None or second is None or first == second:
        return first if first == second else None
    if condition is not None:
        first, second = assuming(first, condition, True), assuming(second, condition, False)
        more = plus(first, second, -1)
        if more is not None and set(more) == {None}:
            return plus(second, {condition: more[None]})
    return _most(first, second)


def _most(one: Held, other: Held) -> Held | None:
    """The larger of two, where that is the same one whatever is true."""
    more = plus(one, other, -1)
    if more is not None and least(more) >= 0:
        return one
    less = plus(other, one, -1)
    return other if less is not None and least(less) >= 0 else None


def least(held: Held) -> int:
    """As many as are held whatever is true."""
    return held.get(None, 0) + sum(n for c, n in held.items() if c is not None and n < 0)
