"""A place on the stack that several variables take turns in becomes a place for each.

Needs       a Function
Gives       `split_places`: the function, changed in place
Invariants  L1  what is read is what was written: two accesses share a place still if one run may
                reach both without that the place was begun anew between them

LLVM puts variables whose lifetimes do not meet into one place, and marks where one begins
(`llvm.lifetime.start`). To what looks at places as such, they are one variable.
"""

from __future__ import annotations

from collections.abc import Iterator

from activerules.ir.builder import Namer
from activerules.ir.cfg import reverse_postorder
from activerules.ir.model import Block, Function, Instruction, Value

_START = "llvm.lifetime.start."

Begun = frozenset[Instruction | None]
"""Where the variable began that a place holds; None where the function does."""


def split_places(function: Function) -> None:
    """See the module docstring."""
    starts: dict[Value, set[Instruction]] = {}
    for i in function.instructions():
        if (i.callee_name or "").startswith(_START):
            starts.setdefault(i.operands[0], set()).add(i)
    shared = [p for p, found in starts.items() if len(found) > 1 and isinstance(p, Instruction)]
    if not shared:
        return
    uses: dict[Value, list[Instruction]] = {}
    for i in function.instructions():
        for o in i.operands:
            uses.setdefault(o, []).append(i)
    namer = Namer("life", function.local_names())
    for place in shared:
        accesses = set(_accesses(place, uses))
        if place.opcode == "alloca" and all(
            i.opcode in ("load", "store", "call") for i in accesses
        ):
            _split(place, accesses, starts[place], function, namer)


def _accesses(place: Value, uses: dict[Value, list[Instruction]]) -> Iterator[Instruction]:
    for use in uses.get(place, ()):
        if use.opcode == "getelementptr":
            yield from _accesses(use, uses)
        else:
            yield use


def _split(
    place: Instruction,
    accesses: set[Instruction],
    starts: set[Instruction],
    function: Function,
    namer: Namer,
) -> None:
    begun = _begun(function, accesses, starts)
    groups: list[set[Instruction | None]] = []
    for found in begun.values():
        joined = set(found).union(*(g for g in groups if g & found))
        groups = [g for g in groups if not g & found] + [joined]
    for group in groups[1:]:
        own = _copy(place, namer)
        _put_before(place, own)
        for access in accesses:
            if begun[access] <= group:
                access.operands = [_moved(o, place, own, access, namer) for o in access.operands]


def _begun(
    function: Function, accesses: set[Instruction], starts: set[Instruction]
) -> dict[Instruction, Begun]:
    """Of each access, where the variable may have begun that is accessed."""
    order = reverse_postorder(function.entry)
    entering: dict[Block, Begun] = {order[0]: frozenset({None})}
    begun: dict[Instruction, Begun] = dict.fromkeys(accesses, frozenset())
    work = dict.fromkeys(order[:1])
    while work:
        block = next(iter(work))
        del work[block]
        now = entering[block]
        for i in block.instructions:
            if i in starts:
                now = frozenset({i})
            if i in accesses:
                begun[i] = now
        for target in block.successors:
            both = entering.get(target, frozenset()) | now
            if both != entering.get(target):
                entering[target] = both
                work[target] = None
    return begun


def _moved(
    value: Value, place: Instruction, own: Instruction, access: Instruction, namer: Namer
) -> Value:
    """An operand, where it points into the place, into the variable's own."""
    steps: list[Instruction] = []
    base = value
    while isinstance(base, Instruction) and base.opcode == "getelementptr":
        steps.append(base)
        base = base.operands[0]
    if base is not place:
        return value
    moved = own
    for step in reversed(steps):
        moved, before = _copy(step, namer), moved
        moved.operands[0] = before
        _put_before(access, moved)
    return moved


def _copy(i: Instruction, namer: Namer) -> Instruction:
    return Instruction(
        i.opcode, i.type, [*i.operands], namer("own"), i.flags, attributes=dict(i.attributes)
    )


def _put_before(place: Instruction, made: Instruction) -> None:
    made.parent = place.owner
    here = place.owner.instructions
    here.insert(next(k for k, i in enumerate(here) if i is place), made)
