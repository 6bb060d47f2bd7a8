"""Loops over the indices of an array, found one after the other, become nests of loops.

Needs       a Function in normal form, but for the form of its loops
Gives       `nest_indices`: changes the functions of a module in place; returns whether it did.
            Afterwards loops have to be simplified again: LLVM then makes a loop of each way back
            on which an outer index stays as it is
Invariants  M1  the same instructions run in the same order, but for tests whose outcome is known

A loop over all indices of an array begins by finding the next one: the innermost axis goes on, or
the one around it does, and those inside begin anew. Its length is then unknown until it ends.

    header: i, j                    j + 1 < n ?  body : outer
    outer:                          i + 1 < m ?  body : leave
    body:   (i, j + 1 | i + 1, 0)   ...          br header

These tests are copied to both places from which the header is reached. The body becomes a header
that is reached with the outer index unchanged, or with the next one:

    latch:  j + 1 < n ?  body : outer'
    outer': i + 1 < m ?  body : leave
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import ControlFlow, Loop, control_flow_if_reducible
from activerules.ir.llvm.constants import constant, integer_of
from activerules.ir.llvm.model import (
    BINARY_INT,
    MAY_TRAP,
    Block,
    Function,
    Instruction,
    Module,
    Value,
)

_COPIED = (BINARY_INT - MAY_TRAP) | {"icmp", "select"}
_MOST_AXES = 16


@dataclass(frozen=True)
class _Tests:
    """The blocks that find the next index, where it is used, and what comes behind the loop."""

    loop: Loop
    blocks: list[Block]
    body: Block
    leave: Block

    @property
    def header(self) -> Block:
        """Where the loop begins."""
        return self.blocks[0]


@dataclass(frozen=True)
class _Copy:
    """A copy of the tests: its values, and its edges to other blocks, with the original block."""

    values: dict[Value, Value]
    blocks: list[Block]
    edges: list[tuple[Block, Block, Block]]


def nest_indices(module: Module) -> bool:
    """See the module docstring; for all functions that are defined."""
    changed = [_nest_indices(function) for function in module.defined()]
    return any(changed)


def _nest_indices(function: Function) -> bool:
    changed = False
    while (tests := next(_candidates(function), None)) is not None:
        _copy_to_entries(function, tests)
        changed = True
    return changed


def _candidates(function: Function) -> Iterator[_Tests]:
    counts = any(_counts_on(block) for block in function.blocks)
    flow = control_flow_if_reducible(function) if counts else None
    if flow is None:
        return
    for loop in flow.loops:
        tests = _tests_of(loop, flow)
        if tests is not None and _carries_outer(tests) and _is_closed(tests, flow):
            yield tests


def _counts_on(block: Block) -> bool:
    """Whether a block may be a test: nothing but integers and a branch."""
    *rest, last = block.instructions
    plain = all(i.opcode in _COPIED or i.opcode == "phi" for i in rest)
    return plain and last.opcode == "br" and len(set(last.blocks)) == 2


def _tests_of(loop: Loop, flow: ControlFlow) -> _Tests | None:
    """The tests at the begin of a loop, if there are two or more."""
    blocks, body = [loop.header], None
    while _counts_on(blocks[-1]) and len(blocks) <= _MOST_AXES:
        inside = [s for s in blocks[-1].successors if s in loop.blocks]
        if len(inside) == 1:
            [leave] = [s for s in blocks[-1].successors if s not in loop.blocks]
            [target] = inside
            is_whole = body is target and set(flow.predecessors[target]) == set(blocks)
            return _Tests(loop, blocks, target, leave) if is_whole else None
        following = [s for s in inside if flow.predecessors[s] == [blocks[-1]]]
        bodies = [s for s in inside if s not in following]
        if len(following) != 1 or (body is not None and bodies != [body]):
            return None
        if any(following[0].phis):
            return None
        body = bodies[0]
        blocks.append(following[0])
    return None


def _carries_outer(tests: _Tests) -> bool:
    """Whether an index stays as it is where the innermost axis goes on."""
    latch = tests.loop.latch
    if latch is None or tests.loop.preheader is None or latch in tests.blocks:
        return False
    indices: dict[Value, Value] = {
        phi: dict(zip(phi.blocks, phi.operands, strict=True))[tests.header]
        for phi in tests.body.phis
    }
    return any(
        indices.get(value) is phi
        for phi in tests.header.phis
        for value, source in zip(phi.operands, phi.blocks, strict=True)
        if source is latch
    )


def _is_closed(tests: _Tests, flow: ControlFlow) -> bool:
    """Whether values of the tests but the first are used in phis of the next blocks only, or in the
    tests themselves.
    """
    for block in tests.blocks[1:]:
        for i in block.instructions:
            for user in flow.users.get(i, ()):
                passed_on = user.opcode == "phi" and user.parent in (tests.body, tests.leave)
                if user.parent not in tests.blocks and not passed_on:
                    return False
    return True


def _copy_to_entries(function: Function, tests: _Tests) -> None:
    loop, header = tests.loop, tests.header
    assert loop.latch is not None
    assert loop.preheader is not None
    namer = Namer("nest", function.local_names())
    in_body = _phis_for_values_of_header(function, tests, namer)
    copies: list[_Copy] = []
    for source in (loop.preheader, loop.latch):
        start: dict[Value, Value] = {}
        for phi in header.phis:
            value = dict(zip(phi.blocks, phi.operands, strict=True))[source]
            start[phi] = in_body.get(value, value)
        copies.append(_copied(function, tests, start, namer, resolved=source is loop.preheader))
        ends = source.terminator
        ends.blocks = [copies[-1].blocks[0] if b is header else b for b in ends.blocks]
    for target in (tests.body, tests.leave):
        for phi in target.phis:
            _enter_from(phi, target, tests, copies)
    for value, phi in in_body.items():
        phi.blocks, phi.operands = [], []
        for copy in copies:
            for block, target, _ in copy.edges:
                if target is tests.body:
                    phi.blocks.append(block)
                    phi.operands.append(copy.values[value])
    at = function.blocks.index(header)
    function.blocks[at:at] = [block for copy in copies for block in copy.blocks]
    function.blocks = [b for b in function.blocks if b not in tests.blocks]


def _phis_for_values_of_header(
    function: Function, tests: _Tests, namer: Namer
) -> dict[Value, Instruction]:
    """Phis of the body, still without operands, for the values of the header that are used after
    the tests; there they are used instead.
    """
    phis: dict[Value, Instruction] = {}
    values = {i for i in tests.header.instructions if i.name}
    for i in function.instructions():
        within = i.parent in tests.blocks
        for k, o in enumerate(i.operands):
            on_edge = i.opcode == "phi" and i.blocks[k] in tests.blocks
            if o not in values or on_edge or (within and i not in tests.header.phis):
                continue
            if o not in phis:
                phis[o] = Instruction("phi", o.type, [], namer("kept"))
            if not within:
                i.operands[k] = phis[o]
    tests.body.insert(0, *phis.values())
    return phis


def _copied(
    function: Function, tests: _Tests, start: dict[Value, Value], namer: Namer, *, resolved: bool
) -> _Copy:
    """A copy of the tests for given values of the header's phis; with `resolved`, branches whose
    outcome follows from them are taken.
    """
    twins = {block: Block(namer("test"), parent=function) for block in tests.blocks}
    copy = _Copy(dict(start), [], [])
    for block in tests.blocks:
        twin = twins[block]
        b = Builder(twin, namer)
        copy.blocks.append(twin)
        *rest, last = (i for i in block.instructions if i.opcode != "phi")
        for i in rest:
            copy.values[i] = _append_copy(b, i, copy.values, resolved=resolved)
        condition = copy.values.get(last.operands[0], last.operands[0])
        outcome = _outcome(condition) if resolved else None
        targets = last.blocks if outcome is None else [last.blocks[0 if outcome else 1]]
        copy.edges.extend((twin, target, block) for target in targets if target not in twins)
        after = [twins.get(t, t) for t in targets]
        if outcome is None:
            attributes = dict(last.attributes)
            b.append(Instruction("br", last.type, [condition], blocks=after, attributes=attributes))
        else:
            b.br(after[0])
            if after == targets:
                break
    return copy


def _append_copy(
    b: Builder, i: Instruction, values: dict[Value, Value], *, resolved: bool
) -> Value:
    operands = [values.get(o, o) for o in i.operands]
    attributes = dict(i.attributes)
    twin = Instruction(i.opcode, i.type, operands, b.namer("next"), i.flags, attributes=attributes)
    base, number = _sum_with_number(twin)
    return constant(i.type, number) if resolved and base is None else b.append(twin)


def _enter_from(phi: Instruction, target: Block, tests: _Tests, copies: list[_Copy]) -> None:
    """Let a phi behind the tests have its values from their copies."""
    taken = dict(zip(phi.blocks, phi.operands, strict=True))
    kept = {block: value for block, value in taken.items() if block not in tests.blocks}
    phi.blocks, phi.operands = [*kept], [*kept.values()]
    for copy in copies:
        for block, to, origin in copy.edges:
            if to is target and origin in taken:
                phi.blocks.append(block)
                value = taken[origin]
                phi.operands.append(copy.values.get(value, value))


def _outcome(condition: Value) -> bool | None:
    """The outcome of a signed comparison of numbers, or of a value with itself; else None."""
    if not isinstance(condition, Instruction) or condition.opcode != "icmp":
        return None
    if condition.attributes["predicate"] not in {"slt", "sge"}:
        return None
    (x, m), (y, n) = map(_sum_with_number, condition.operands)
    if x is not y or (x is not None and m != n):
        return None
    return (m < n) == (condition.attributes["predicate"] == "slt")


def _sum_with_number(value: Value) -> tuple[Value | None, int]:
    """A value as another one plus a number (modulo 2^64); None is zero."""
    number = integer_of(value)
    if number is not None:
        return None, number
    if isinstance(value, Instruction) and value.opcode == "add":
        first, second = value.operands
        if (number := integer_of(second)) is not None:
            base, before = _sum_with_number(first)
            return base, before + number
    return value, 0
