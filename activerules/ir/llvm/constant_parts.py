"""The scalars in a struct, array or vector: their offsets, and their values in a literal."""

from __future__ import annotations

from dataclasses import dataclass

from activerules.ir.llvm.constants import constant
from activerules.ir.llvm.model import Constant, GlobalRef, Value
from activerules.ir.llvm.types import (
    ArrayType,
    NamedType,
    NamedTypes,
    StructType,
    Type,
    VectorType,
    body_of,
    field_offset,
    size_of,
)

_MOST = 64
_EMPTY = {"undef", "poison"}


class CannotSplit(Exception):
    """A value cannot be split into scalars."""


@dataclass(frozen=True)
class ScalarPart:
    """A scalar at `offset` bytes of a value, reached by the indices in `path`."""

    path: tuple[int, ...]
    offset: int
    type: Type


def leaves_of(t: Type, named: NamedTypes) -> list[ScalarPart]:
    """The scalars in a value of type `t`, in order; `CannotSplit` if there are too many."""
    leaves: list[ScalarPart] = []
    _collect(t, (), 0, named, leaves)
    return leaves


def _collect(
    t: Type, path: tuple[int, ...], offset: int, named: NamedTypes, leaves: list[ScalarPart]
) -> None:
    if len(leaves) > _MOST:
        raise CannotSplit
    match t:
        case NamedType():
            _collect(body_of(t, named), path, offset, named, leaves)
        case StructType(elements):
            for k, element in enumerate(elements):
                start = offset + field_offset(t, k, named)
                _collect(element, (*path, k), start, named, leaves)
        case VectorType(scalable=True):
            raise CannotSplit
        case ArrayType(length, element) | VectorType(length, element):
            for k in range(min(length, _MOST + 1)):
                start = offset + k * size_of(element, named)
                _collect(element, (*path, k), start, named, leaves)
        case _:
            leaves.append(ScalarPart(path, offset, t))


def parts_of_constant(value: Constant, named: NamedTypes) -> list[Value]:
    """The leaves of a literal; `CannotSplit` for a constant expression."""
    leaves = leaves_of(value.type, named)
    text = value.text.strip()
    if text in _EMPTY:
        return [Constant(leaf.type, text) for leaf in leaves]
    if text == "zeroinitializer":
        return [Constant(leaf.type, _zero(leaf.type)) for leaf in leaves]
    t = body_of(value.type, named) if isinstance(value.type, NamedType) else value.type
    elements = _elements(t)
    if text.startswith("splat (") and text.endswith(")"):
        texts = [text[len("splat (") : -1]] * len(elements)
    else:
        texts = _split(text)
    if len(texts) != len(elements):
        raise CannotSplit
    parts: list[Value] = []
    for element, each in zip(elements, texts, strict=True):
        prefix = f"{element} "
        if not each.startswith(prefix):
            raise CannotSplit
        parts += _leaf(element, each.removeprefix(prefix).strip(), value, named)
    return parts


def _leaf(t: Type, text: str, whole: Constant, named: NamedTypes) -> list[Value]:
    if isinstance(t, StructType | ArrayType | VectorType | NamedType):
        return parts_of_constant(Constant(t, text, whole.globals), named)
    if text.startswith("@"):
        return [GlobalRef(text[1:])]
    return [Constant(t, text, tuple(g for g in whole.globals if f"@{g}" in text))]


def _zero(t: Type) -> str:
    if t.is_float:
        return "0.000000e+00" if str(t) in {"double", "float"} else constant(t, 0.0).text
    return "null" if t.is_pointer else ("false" if str(t) == "i1" else "0")


def _elements(t: Type) -> list[Type]:
    match t:
        case StructType(elements):
            return list(elements)
        case ArrayType(length, element) | VectorType(length, element):
            return [element] * length
        case _:
            raise CannotSplit


def _split(text: str) -> list[str]:
    """The parts of `{ a, b }`, `[a, b]` or `<a, b>` between commas outside brackets."""
    opened = "<{" if text.startswith("<{") else text[:1]
    if opened not in {"{", "[", "<", "<{"} or '"' in text:
        raise CannotSplit
    inside = text[len(opened) : -len(opened)].strip()
    parts: list[str] = []
    depth = start = 0
    for k, c in enumerate(inside):
        depth += (c in "{[<(") - (c in "}]>)")
        if c == "," and depth == 0:
            parts.append(inside[start:k].strip())
            start = k + 1
    return [*parts, inside[start:].strip()] if inside else []
