"""Bounds: the least and the greatest value of integers that loops with constant limits count.

Needs       integers of a function in normal form
Gives       `bounds_of(value)`
            `most_repeats(phi)`: how often the loop of a phi is repeated at most
Invariants  B1  a value with bounds lies between them, as a signed number, whenever it is computed
            B2  a phi with a start takes no other operand more often in succession
"""

from __future__ import annotations

from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.types import IntType

Bounds = tuple[int, int]


def bounds_of(value: Value, depth: int = 4) -> Bounds | None:
    """None where they are not known."""
    number = integer_of(value)
    if number is not None:
        return number, number
    if not isinstance(value, Instruction) or not depth:
        return None
    if value.opcode == "phi":
        counter = _counter(value)
        return (counter[0], counter[-1]) if counter is not None else None
    if value.opcode not in {"add", "mul", "shl", "sext"}:
        return None
    found = [bounds_of(o, depth - 1) for o in value.operands]
    operands = [b for b in found if b is not None]
    if len(operands) < len(found):
        return None
    match value.opcode, operands:
        case "add", [(low, high), (least, most)]:
            ends = [low + least, high + most]
        case "mul", [left, right]:
            ends = [x * y for x in left for y in right]
        case "shl", [left, (amount, most)] if amount == most and 0 <= amount < 64:
            ends = [x << amount for x in left]
        case "sext", [(low, high)]:
            ends = [low, high]
        case _:
            return None
    return (min(ends), max(ends)) if _fit(value, ends) else None


def most_repeats(phi: Instruction) -> int | None:
    """None where that is not known."""
    for other in phi.owner.phis:
        counter = _counter(other)
        if counter is not None:
            return len(counter) - 1
    return None


def _counter(phi: Instruction) -> range | None:
    """The values of a phi that counts upwards until its next value is a constant."""
    if len(phi.operands) != 2:
        return None
    for start, after, latch in zip(phi.operands, phi.operands[::-1], phi.blocks[::-1], strict=True):
        first, step, limit = integer_of(start), _step(after, phi), _limit(after, phi, latch)
        if first is None or step is None or limit is None:
            continue
        if step > 0 and first < limit and (limit - first) % step == 0 and _fit(phi, [first, limit]):
            return range(first, limit, step)
    return None


def _step(after: Value, phi: Instruction) -> int | None:
    """The constant that is added to a phi."""
    if not isinstance(after, Instruction) or after.opcode != "add" or phi not in after.operands:
        return None
    x, y = after.operands
    return integer_of(y if x is phi else x)


def _limit(after: Value, phi: Instruction, latch: Block) -> int | None:
    """The constant at which a value of a counter does not lead from a block to its phi."""
    branch = latch.terminator
    test = branch.operands[0] if branch.opcode == "br" and len(branch.blocks) == 2 else None
    if not isinstance(test, Instruction) or test.opcode != "icmp" or test.operands[0] is not after:
        return None
    leaves = {"eq": 0, "ne": 1}.get(test.attributes["predicate"])
    if leaves is None or branch.blocks[leaves] is phi.owner:
        return None
    return integer_of(test.operands[1])


def _fit(value: Instruction, numbers: list[int]) -> bool:
    """Whether the type of a value holds all of these signed numbers."""
    half = 1 << (value.type.bits - 1) if isinstance(value.type, IntType) else 0
    return all(-half <= n < half for n in numbers)
