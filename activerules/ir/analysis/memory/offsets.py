"""Sets of offsets: where in blocks of one shape a pointer may point, from the start of the block.

Gives       `offsets_of`, `moved`, `covers`, `widest`, `shifted`, on addresses with one common base
Invariants  O1 and O3 of `addresses`; each set of offsets has exactly one representation
"""

from __future__ import annotations

from math import gcd

from activerules.ir.analysis.memory.addresses import Address
from activerules.ir.llvm.model import Constant
from activerules.ir.llvm.types import PTR

_ORIGIN = Constant(PTR, "null")
START = Address(_ORIGIN, 0)
ANYWHERE = Address(_ORIGIN, 0, 1)


def moved(address: Address, constant: int, variable: int) -> Address:
    """The offsets after a getelementptr that adds a constant and multiples of `variable`."""
    low = address.low if address.stride else address.offset
    if low is not None:
        low += constant
    return offsets_of(address.offset + constant, gcd(address.stride, variable), low)


def offsets_of(offset: int, stride: int, low: int | None) -> Address:
    """The one representation of a set of offsets."""
    return Address(_ORIGIN, offset % stride if stride else offset, stride, low if stride else None)


def covers(whole: Address, part: Address) -> bool:
    """Whether one set of offsets contains another."""
    if (
        whole.stride == 0
        or part.stride % whole.stride
        or (part.offset - whole.offset) % whole.stride
    ):
        return whole == part
    low = part.low if part.stride else part.offset
    return whole.low is None or (low is not None and low >= whole.low)


def widest(left: Address, right: Address) -> Address:
    """A set that contains the offsets of both."""
    return offsets_of(left.offset, gcd(left.stride, right.stride, left.offset - right.offset), None)


def shifted(address: Address, start: Address, end: Address) -> Address:
    """Where a copy from `start` to `end` moves the bytes at `address`."""
    stride = gcd(address.stride, start.stride, end.stride)
    low = end.low if end.stride else end.offset
    return offsets_of(address.offset - start.offset + end.offset, stride, low)
