"""Tuples with arrays as arguments of rules: split into leaves for the engine, whole for the rule.

The engine knows one activity per argument of a marked call, and a tuple with arrays may have
several. So its leaves are separate arguments for the engine, each with its own activity, and the
rule is called with the reassembled tuple. Whether a tuple is split depends on its type alone. Any
other argument is a single part.

Needs       a marked call
Gives       `flattened`: the call as the engine sees it; `wholes_of`: the positions of the parts
            of each argument in it; `unflattened`, `leaves_in`: the same for values
Invariants  P1  parts are passed as the whole is: their operands, in order, are those of the whole
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numba.core import types
from numba.core.typing.templates import signature

from activerules.annotations.activity import Active, Annotation, Const, Duplicated, MixedDuplicated
from activerules.numba_ext.codegen.protocols import Builder, Value
from activerules.numba_ext.target.marked_calls import MarkedCall, plain_type
from activerules.values.kinds import is_number, is_number_array, leaves_of
from activerules.values.layout import Node, fold, layout_of, show_in

Kind = type[Annotation]


@dataclass(frozen=True)
class Whole:
    """An argument of a marked call, and the positions of its parts."""

    name: str
    numba_type: types.Type
    parts: range
    is_split: bool

    def activity(self, activities: Sequence[str], *, forward: bool = False) -> str | Kind:
        """The activity of the argument, from those of its parts."""
        own = [activities[i] for i in self.parts]
        if not self.is_split:
            return own[0]
        if set(own) == {"const"}:
            return Const
        is_mixed = layout_of(self.numba_type).carried.by_value and not forward
        return MixedDuplicated if is_mixed else Duplicated

    def any_of(self, facts: Sequence[bool]) -> bool:
        """Whether something holds for one of its parts."""
        return any(facts[i] for i in self.parts)


def is_split(ty: types.Type) -> bool:
    """Whether an argument is a tuple of arrays of numbers and, perhaps, numbers and constants."""
    return (
        isinstance(ty, types.BaseTuple)
        and ty == plain_type(ty)
        and layout_of(ty).carried.by_reference
        and not layout_of(ty).is_container
        and not any(isinstance(leaf, types.Record) for leaf in leaves_of(ty))
        and all(
            is_number_array(leaf) or not layout_of(leaf).carried.by_reference
            for leaf in leaves_of(ty)
        )
    )


def wholes_of(marked: MarkedCall) -> tuple[Whole, ...]:
    """The arguments of a call, with the positions of their parts."""
    wholes: list[Whole] = []
    start = 0
    for name, ty in zip(marked.argument_names, marked.signature.args, strict=True):
        split = is_split(ty)
        stop = start + (len(list(leaves_of(ty))) if split else 1)
        wholes.append(Whole(name, ty, range(start, stop), split))
        start = stop
    return tuple(wholes)


def flattened(marked: MarkedCall) -> MarkedCall:
    """The call with the parts as arguments, under names such as `params[0]`."""
    parts = [
        part
        for name, ty in zip(marked.argument_names, marked.signature.args, strict=True)
        for part in (_parts_of(name, ty) if is_split(ty) else [(name, ty)])
    ]
    names, argtypes = zip(*parts, strict=True) if parts else ((), ())
    return replace(
        marked,
        argument_names=names,
        signature=signature(marked.signature.return_type, *argtypes),
    )


def _parts_of(name: str, ty: types.Type) -> Iterator[tuple[str, types.Type]]:
    for path, leaf in layout_of(ty).leaf_paths:
        yield name + show_in(ty, path), leaf.numba_type


def part_kind(kind: Kind, part: types.Type) -> Kind:
    """The annotation of a part of a tuple whose annotation is `kind`."""
    if not (is_number(part) or is_number_array(part)):
        return Const
    if kind is MixedDuplicated:
        return Active if is_number(part) else Duplicated
    return kind


def unflattened(
    ty: types.Type, leaves: Iterator[Any], make: Callable[[types.Type, list[Any]], Any]
) -> Any:
    """The value of type `ty` assembled from its leaves; `make` makes a tuple."""

    def assembled(node: Node, items: list[Any]) -> Any:
        return make(node.numba_type, items)

    return fold(layout_of(ty), lambda leaf: next(leaves), assembled)


def leaves_in(builder: Builder, ty: types.Type, value: Value) -> Iterator[tuple[types.Type, Any]]:
    """The leaves of a value, with their types."""
    for path, leaf in layout_of(ty).leaf_paths:
        yield leaf.numba_type, builder.extract_value(value, path) if path else value
