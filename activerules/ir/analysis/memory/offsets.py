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


def covers(one: Address, other: Address) -> bool:
    """Whether one set of offsets contains another."""
    if one.stride == 0 or other.stride % one.stride or (other.offset - one.offset) % one.stride:
        return one == other
    low = other.low if other.stride else other.offset
    return one.low is None or (low is not None and low >= one.low)


def widest(one: Address, other: Address) -> Address:
    """A set that contains the offsets of both."""
    return offsets_of(one.offset, gcd(one.stride, other.stride, one.offset - other.offset), None)


def shifted(address: Address, start: Address, end: Address) -> Address:
    """Where a copy from `start` to `end` moves the bytes at `address`."""
    stride = gcd(address.stride, start.stride, end.stride)
    low = end.low if end.stride else end.offset
    return offsets_of(address.offset - start.offset + end.offset, stride, low)
