"""Python numbers to LLVM literals and back, bit for bit.

LLVM writes a floating point literal exactly only in hexadecimal. A `float` (32 bit) literal is
written with the bits of the `double` of the same value, `half` and `bfloat` with their own 16 bits.
"""

from __future__ import annotations

import ctypes
import struct

from activerules.ir.llvm.model import Constant, Value
from activerules.ir.llvm.types import FloatType, IntType, PointerType, Type

_WORDS = {"zeroinitializer": 0, "null": 0, "false": 0, "true": 1}


def constant(t: Type, number: float | None) -> Constant:
    """The literal of type `t` for `number`, rounded to nearest for float types.

    A pointer has only `null`, written for None. `ValueError` for a type that has no literals, or a
    number that is not in it.
    """
    if isinstance(t, FloatType) and number is not None:
        return Constant(t, _float_text(t.kind, float(number)))
    if isinstance(t, IntType) and number is not None and int(number) == number:
        return Constant(t, str(bool(number)).lower() if t.bits == 1 else str(int(number)))
    if isinstance(t, PointerType) and number is None:
        return Constant(t, "null")
    raise ValueError(f"no literal of type {t} for {number!r}")


def number_of(value: Value) -> float | int | None:
    """The exact number of a literal; None for any other value."""
    if not isinstance(value, Constant):
        return None
    if value.text in _WORDS:
        return float(_WORDS[value.text]) if value.type.is_float else _WORDS[value.text]
    try:
        if isinstance(value.type, FloatType):
            return _float_value(value.type.kind, value.text)
        return int(value.text) if value.type.is_int else None
    except ValueError:
        return None


def integer_of(value: Value) -> int | None:
    """The number of a literal in decimal digits; None for any other value."""
    if isinstance(value, Constant) and value.text.lstrip("-").isdigit():
        return int(value.text)
    return None


def float_of_bits(t: Type, bits: int) -> Constant | None:
    """The literal of a float type that has these bits; None for a NaN, whose payload may be lost,
    and types other than `double` and `float`.
    """
    formats = {"double": ("<Q", "<d", 64), "float": ("<I", "<f", 32)}
    if not isinstance(t, FloatType) or t.kind not in formats:
        return None
    as_integer, as_float, size = formats[t.kind]
    packed = struct.pack(as_integer, bits & ((1 << size) - 1))
    number: float = struct.unpack(as_float, packed)[0]
    return constant(t, number) if number == number else None


_WIDE_ZEROS = {
    "x86_fp80": "0xK" + "0" * 20, "fp128": "0xL" + "0" * 32, "ppc_fp128": "0xM" + "0" * 32
}  # fmt: skip


def _float_text(kind: str, number: float) -> str:
    match kind:
        case "double":
            return f"0x{_bits('<d', '<Q', number):016X}"
        case "float":
            return f"0x{_bits('<d', '<Q', ctypes.c_float(number).value):016X}"
        case "half":
            return f"0xH{_bits('<e', '<H', number):04X}"
        case "bfloat":
            return f"0xR{_bfloat_bits(number):04X}"
        case _ if number == 0 and kind in _WIDE_ZEROS:
            return _WIDE_ZEROS[kind]
        case _:
            raise ValueError(f"literals of type {kind} are not supported")


def _bits(as_float: str, as_integer: str, number: float) -> int:
    return struct.unpack(as_integer, struct.pack(as_float, number))[0]


def _bfloat_bits(number: float) -> int:
    bits = _bits("<f", "<I", ctypes.c_float(number).value)
    if number != number:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _float_value(kind: str, text: str) -> float | None:
    if not text.startswith("0x"):
        return float(text)
    match kind, text[2]:
        case (("double" | "float"), _):
            return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
        case "half", "H":
            return struct.unpack("<e", struct.pack("<H", int(text[3:], 16)))[0]
        case "bfloat", "R":
            return struct.unpack("<f", struct.pack("<I", int(text[3:], 16) << 16))[0]
        case _:
            return None
