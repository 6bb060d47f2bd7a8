"""The LLVM types the engine knows, interned: two equal types are the same object.

A type prints as LLVM writes it (`str(t)`). Sizes follow the data layout of the 64-bit targets that
Numba supports (x86-64, AArch64): natural alignment, 8-byte pointers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Type:
    """Base of all types."""

    @property
    def is_float(self) -> bool:
        """A floating point scalar."""
        return isinstance(self, FloatType)

    @property
    def is_int(self) -> bool:
        """An integer scalar."""
        return isinstance(self, IntType)

    @property
    def is_pointer(self) -> bool:
        """A pointer of any address space."""
        return isinstance(self, PointerType)


@dataclass(frozen=True, slots=True)
class WordType(Type):
    """A type without data: `void`, no value, the result of `store`; `label`, of a block as an
    operand; `metadata`, of operands of `llvm.dbg.value`; `token`, of an exception pad.
    """

    word: str

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True, slots=True)
class IntType(Type):
    """`i<bits>`; signedness is a matter of the instruction."""

    bits: int

    def __str__(self) -> str:
        return f"i{self.bits}"


@dataclass(frozen=True, slots=True)
class FloatType(Type):
    """`half`, `bfloat`, `float`, `double`, `x86_fp80`, `fp128` or `ppc_fp128`."""

    kind: str

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class PointerType(Type):
    """An opaque pointer."""

    address_space: int = 0

    def __str__(self) -> str:
        return f"ptr addrspace({self.address_space})" if self.address_space else "ptr"


@dataclass(frozen=True, slots=True)
class ArrayType(Type):
    """A fixed number of elements side by side in memory."""

    length: int
    element: Type

    def __str__(self) -> str:
        return f"[{self.length} x {self.element}]"


@dataclass(frozen=True, slots=True)
class VectorType(Type):
    """A SIMD vector; `scalable`: a multiple of `length` that the machine chooses."""

    length: int
    element: Type
    scalable: bool = False

    def __str__(self) -> str:
        return f"<{'vscale x ' if self.scalable else ''}{self.length} x {self.element}>"


@dataclass(frozen=True, slots=True)
class StructType(Type):
    """A literal struct; `packed`: without padding."""

    elements: tuple[Type, ...]
    packed: bool = False

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.elements))
        body = f"{{ {inside} }}" if inside else "{}"
        return f"<{body}>" if self.packed else body


@dataclass(frozen=True, slots=True)
class NamedType(Type):
    """A named struct (`%"class.std::vector"`); `Module.types` holds its body."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True)
class FunctionType(Type):
    """Written at calls of vararg functions: `i32 (ptr, ...)`."""

    result: Type
    parameters: tuple[Type, ...]
    vararg: bool = False

    def __str__(self) -> str:
        inside = ", ".join([*map(str, self.parameters), *(["..."] if self.vararg else [])])
        return f"{self.result} ({inside})"


VOID, LABEL, METADATA, TOKEN = map(WordType, ("void", "label", "metadata", "token"))
PTR = PointerType()
DOUBLE, FLOAT = FloatType("double"), FloatType("float")
FLOAT_TYPES: dict[str, FloatType] = {
    "float": FLOAT,
    "double": DOUBLE,
    **{k: FloatType(k) for k in ("half", "bfloat", "x86_fp80", "fp128", "ppc_fp128")},
}

_FLOAT_SIZES = {
    "half": 2, "bfloat": 2, "float": 4, "double": 8, "x86_fp80": 16, "fp128": 16, "ppc_fp128": 16,
}  # fmt: skip


@cache
def int_type(bits: int) -> IntType:
    """`i<bits>`."""
    return IntType(bits)


I1, I8, I16, I32, I64 = map(int_type, (1, 8, 16, 32, 64))

_interned: dict[Type, Type] = {
    t: t for t in (VOID, LABEL, METADATA, TOKEN, PTR, *FLOAT_TYPES.values())
}

NamedTypes = Mapping[str, Type | None]
"""The bodies of named structs; None for an opaque one."""


def intern(t: Type) -> Type:
    """The one object that stands for all types equal to `t`."""
    return int_type(t.bits) if isinstance(t, IntType) else _interned.setdefault(t, t)


def align_up(offset: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment


def body_of(t: NamedType, named: NamedTypes | None) -> Type:
    """What a named struct stands for. `KeyError` if it is opaque or unknown."""
    body = (named or {}).get(t.name)
    if body is None:
        raise KeyError(t.name)
    return body


def alignment_of(t: Type, named: NamedTypes | None = None) -> int:
    """The ABI alignment of `t` in bytes."""
    match t:
        case NamedType():
            return alignment_of(body_of(t, named), named)
        case ArrayType(_, element):
            return alignment_of(element, named)
        case StructType(elements, packed):
            return 1 if packed else max((alignment_of(e, named) for e in elements), default=1)
        case IntType(bits):
            return min(16, 1 << (max(bits, 8) // 8 - 1).bit_length())
        case _:
            return max(1, size_of(t, named))


def bits_of(t: Type) -> int:
    """The number of bits of a scalar."""
    if isinstance(t, IntType):
        return t.bits
    return 80 if str(t) == "x86_fp80" else 8 * size_of(t)


def size_of(t: Type, named: NamedTypes | None = None) -> int:
    """The allocated size of `t` in bytes: what a GEP steps over.

    `KeyError` for an opaque named struct, `TypeError` for a type without a size.
    """
    match t:
        case NamedType():
            return size_of(body_of(t, named), named)
        case IntType(bits):
            return align_up(-(-bits // 8), alignment_of(t))
        case FloatType(kind):
            return _FLOAT_SIZES[kind]
        case PointerType():
            return 8
        case ArrayType(length, element):
            return length * size_of(element, named)
        case VectorType(length, element):  # lanes without padding, up to a power of two
            return 1 << (max(1, -(-length * bits_of(element) // 8)) - 1).bit_length()
        case StructType(elements):
            last = len(elements) - 1
            end = field_offset(t, last, named) + size_of(elements[last], named) if elements else 0
            return align_up(end, alignment_of(t, named))
        case _:
            raise TypeError(f"{t} has no size")


def field_offset(t: StructType, index: int, named: NamedTypes | None = None) -> int:
    """Byte offset of field `index` of a struct."""
    end = 0
    for k, element in enumerate(t.elements[: index + 1]):
        end = align_up(end, 1 if t.packed else alignment_of(element, named))
        if k < index:
            end += size_of(element, named)
    return end
