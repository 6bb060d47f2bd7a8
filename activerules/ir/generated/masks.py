"""Selects of floats by conditions of the tape, without branches where there are no mask registers.

Needs       generated functions, before they are printed; marks of `ir/generate/sweep`
Gives       `compare_floats`: where a condition that was read from the tape selects a float, it
            becomes a comparison of two floats, which differ by the last bit if it holds
Invariants  M1  each select has the value it had
            M2  other selects, and other uses of a condition, stay as they are

Before AVX-512, x86 has no instruction that selects a float by a bit, and LLVM makes a branch. A
minimum chooses by the data: every other branch may be mispredicted. A comparison of floats leaves a
mask in one of their registers, and the select is an `and` with it, if nothing else uses that mask.
So each select compares with a number of its own, 1, 2, 4 ..., or LLVM would compare once. It must
not see either that the byte of the tape is 0 or 1, or it would compare that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from struct import pack, unpack

from activerules.ir.generate.sweep import KEPT_CONDITION
from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.model import Function, Instruction
from activerules.ir.llvm.types import DOUBLE, FLOAT, I32, I64, Type

# the integer type of as many bits, and the letters that `struct` has for both
_BITS: dict[Type, tuple[Type, str, str]] = {DOUBLE: (I64, "<d", "<q"), FLOAT: (I32, "<f", "<i")}
# exponents of the numbers, well below infinity in either type
_NUMBERS = 64


def compare_floats(functions: Iterable[Function]) -> None:
    """Replace the conditions of the selects."""
    for function in functions:
        chosen = [i for i in function.instructions() if _selects_floats(i)]
        namer = Namer("mask", {i.name for i in function.instructions() if i.name} if chosen else ())
        uses = Counter[Instruction]()
        for i in chosen:
            condition = i.operands[0]
            assert isinstance(condition, Instruction)
            number = 2.0 ** (uses[condition] % _NUMBERS)
            uses[condition] += 1
            inserted: list[Instruction] = []
            i.operands[0] = _comparison(condition, i, number, Builder(inserted, namer))
            i.owner.insert(i.owner.instructions.index(i), *inserted)


def _selects_floats(i: Instruction) -> bool:
    if i.opcode != "select" or i.type not in _BITS:
        return False
    condition = i.operands[0]
    return isinstance(condition, Instruction) and KEPT_CONDITION in condition.attributes


def _comparison(condition: Instruction, i: Instruction, number: float, b: Builder) -> Instruction:
    """Whether `number` with the byte of the condition in its last bits differs from `number`."""
    integer, float_letter, integer_letter = _BITS[i.type]
    pattern = unpack(integer_letter, pack(float_letter, number))[0]
    bits = b.binary("or", b.cast("zext", condition.operands[0], integer), b.const(integer, pattern))
    return b.fcmp("une", b.cast("bitcast", bits, i.type), b.const(i.type, number))
