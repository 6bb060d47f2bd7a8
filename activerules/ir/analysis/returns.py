"""Returns: which blocks lie on a path to a return that succeeds.

Needs       a Function with one return block; its ControlFlow; whether its integer result is a
            status (0: success)
Gives       Returns, frozen: `live` blocks and the live predecessors of every block
Invariants  R1  if control leaves a block that is not live, the function ends with a non-zero status
                or not at all
            R2  a live block has a live successor, or it is the return block

The reverse sweep runs only after a return with status 0, so it never enters a block that is not
live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from activerules.errors import UnsupportedIR
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Value
from activerules.ir.llvm.refusal import refusal


@dataclass(frozen=True, eq=False)
class Returns:
    """Frozen result of `analyse_returns`; `status`: the function returns 0 for success."""

    exit: Block
    live: frozenset[Block]
    predecessors: dict[Block, tuple[Block, ...]]
    flow: ControlFlow
    status: bool

    def instructions(self) -> Iterator[Instruction]:
        """The instructions of the live blocks, in order."""
        for block in self.flow.order:
            if block in self.live:
                yield from block.instructions

    def exits_of(self, loop: Loop) -> list[tuple[Block, Block]]:
        """The live exit edges of a loop."""
        return [
            (block, target)
            for block in self.flow.order
            if block in loop.blocks and block in self.live
            for target in dict.fromkeys(block.successors)
            if target not in loop.blocks and block in self.predecessors.get(target, ())
        ]


def analyse_returns(function: Function, flow: ControlFlow, *, status: bool) -> Returns:
    """Find the live blocks.

    Raises `UnsupportedIR` if the function never returns, has several return blocks (N3), or jumps
    to a computed address (N5).
    """
    for block in flow.order:
        if block.terminator.opcode == "indirectbr":
            raise refusal(
                block.terminator,
                "N5: a jump to an address that is computed",
                "the reverse sweep has to know which blocks come after which",
                ["write a switch"],
            )
    exits = [block for block in flow.order if block.terminator.opcode == "ret"]
    if len(exits) != 1:
        raise UnsupportedIR(
            what=f"N3: {function.name} has {len(exits)} blocks that return, not one",
            why="a function that never returns has no derivative"
            if not exits
            else "normalise() merges them",
        )
    (exit_block,) = exits
    edges = {block: list(flow.predecessors[block]) for block in flow.order}
    if status:
        result = exit_block.terminator.operands[0]
        edges[exit_block] = _successful(exit_block, result, edges[exit_block], flow)
    live = closure([exit_block], edges.__getitem__)
    return Returns(
        exit_block,
        frozenset(live),
        {b: tuple(edges[b]) for b in flow.order if b in live},
        flow,
        status,
    )


def _successful(
    exit_block: Block, result: Value, predecessors: list[Block], flow: ControlFlow
) -> list[Block]:
    incoming = dict.fromkeys(predecessors, result)
    if isinstance(result, Instruction) and result.opcode == "phi" and result.parent is exit_block:
        incoming = dict(zip(result.blocks, result.operands, strict=True))
    elif isinstance(result, Instruction) and result.parent is exit_block:
        return predecessors
    return [
        p
        for p in predecessors
        if may_be_zero(incoming[p], p, flow)
        and not _branch_excludes_zero(p, exit_block, incoming[p])
    ]


def fails_with(call: Instruction, returns: Returns) -> bool:
    """Whether the function fails if the result of `call` is not 0.

    Then the reverse sweep never has to reverse a call that returned anything but 0. On its way to
    the return the result may be merged with those of other calls: a phi has it on this path.
    """
    if str(call.type) != "i32" or call.owner not in returns.live:
        return False
    seen: set[tuple[Block, Value]] = set()
    work: list[tuple[Block, Value]] = [(call.owner, call)]
    while work:
        block, status = work.pop()
        end = block.terminator
        if block is returns.exit:
            if not end.operands or end.operands[0] not in (call, status):
                return False
            continue
        for target in dict.fromkeys(end.blocks):
            if block not in returns.predecessors.get(target, ()):
                continue
            succeeds = is_zero_on(end, target, call) or is_zero_on(end, target, status)
            is_returned = target is returns.exit and _arrives(block, target) in (call, status)
            if succeeds or is_returned:
                continue
            if target is call.owner:
                return False  # the next call has a status of its own
            reached = (target, _merged(call, status, block, target))
            if reached not in seen:
                seen.add(reached)
                work.append(reached)
    return returns.status


def _merged(call: Value, status: Value, source: Block, target: Block) -> Value:
    """What has the result of `call`, besides itself, once control goes from `source`, where
    `status` has it, to `target`.
    """
    for phi in target.instructions:
        if phi.opcode != "phi":
            break
        if dict(zip(phi.blocks, phi.operands, strict=True)).get(source) in (call, status):
            return phi
    is_another_now = isinstance(status, Instruction) and status.owner is target
    return call if is_another_now else status


def is_zero_on(branch: Instruction, target: Block, value: Value) -> bool:
    """Whether control goes from a branch to `target` only if `value` is 0."""
    if branch.opcode != "br" or len(branch.blocks) != 2 or branch.blocks[0] is branch.blocks[1]:
        return False
    condition, taken = branch.operands[0], branch.blocks[0] is target
    if not isinstance(condition, Instruction) or condition.opcode != "icmp":
        return False
    if condition.operands[0] is not value or integer_of(condition.operands[1]) != 0:
        return False
    return condition.attributes["predicate"] == ("eq" if taken else "ne")


def _arrives(source: Block, exit_block: Block) -> Value | None:
    """What the function returns if control comes from `source`."""
    result = exit_block.terminator.operands[0] if exit_block.terminator.operands else None
    if isinstance(result, Instruction) and result.opcode == "phi" and result.owner is exit_block:
        return dict(zip(result.blocks, result.operands, strict=True)).get(source)
    return result


def may_be_zero(value: Value, block: Block, flow: ControlFlow, depth: int = 0) -> bool:
    """Whether `value` may be 0 when control leaves `block`; True if in doubt."""
    if isinstance(value, Constant):
        return integer_of(value) in {0, None}
    if _known_nonzero(value, block, flow):
        return False
    if depth < 8 and isinstance(value, Instruction):
        if value.opcode == "phi":
            # the edge into the phi counts: after a loop, only it still shows the test of a status
            return any(
                not (value.parent and _branch_excludes_zero(b, value.parent, v))
                and may_be_zero(v, b, flow, depth + 1)
                for v, b in zip(value.operands, value.blocks, strict=True)
            )
        if value.opcode == "select":
            return any(may_be_zero(v, block, flow, depth + 1) for v in value.operands[1:])
    return True


def _known_nonzero(value: Value, block: Block, flow: ControlFlow) -> bool:
    """Whether a branch that dominates the end of `block` implies that `value` is not 0."""
    step: Block | None = block
    while step is not None:
        predecessors = flow.predecessors[step]
        if len(predecessors) == 1 and _branch_excludes_zero(predecessors[0], step, value):
            return True
        step = flow.idom[step]
    return False


def _branch_excludes_zero(source: Block, target: Block, value: Value) -> bool:
    """Whether control goes from `source` to `target` only if `value` is not 0."""
    branch = source.terminator
    if branch.opcode != "br" or len(branch.blocks) != 2 or branch.blocks[0] is branch.blocks[1]:
        return False
    return _excludes_zero(branch.operands[0], branch.blocks[0] is target, value)


def _excludes_zero(condition: Value, holds: bool, value: Value) -> bool:
    if not (isinstance(condition, Instruction) and condition.opcode == "icmp"):
        return (
            isinstance(condition, Instruction)
            and condition.opcode == "or"
            and not holds
            and any(_excludes_zero(part, False, value) for part in condition.operands)
        )
    number = integer_of(condition.operands[1])
    if condition.operands[0] is not value or number is None:
        return False
    bits = getattr(value.type, "bits", 32)
    zero_satisfies = {
        "eq": number == 0,
        "ne": number != 0,
        "slt": number > 0,
        "sle": number >= 0,
        "sgt": number < 0,
        "sge": number <= 0,
        "ult": number % (1 << bits) > 0,
        "ule": True,
        "ugt": False,
        "uge": number == 0,
    }[condition.attributes["predicate"]]
    return zero_satisfies != holds
