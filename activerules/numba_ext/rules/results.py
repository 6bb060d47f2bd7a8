"""Results of functions with rules: numbers, arrays, and tuples of both.

Needs       the Numba type of a result, or of an argument
Gives       `result_kind`, `element_of`, `floats_beside_arrays`: what the engine knows about a
            result; `activity_of_result`: the activity that selects a rule; `arrays_in`: its arrays
Invariants  R1  all arrays of a result are one memory object to the engine's analyses: they contain
                floats of one type, and nothing else
            R2  the arrays of a result share no memory with each other or any argument, nor do those
                of its shadow: known, promised, or checked at every call
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import types

from activerules.annotations.activity import Annotation, Duplicated, MixedDuplicated
from activerules.ir.derivatives.rulecall import ActivityName, ArgumentKind, ResultKind
from activerules.ir.llvm.types import Type
from activerules.numba_ext.codegen.protocols import Builder, Value
from activerules.numba_ext.rules.parts import is_split, leaves_in
from activerules.values.abi import float_offsets
from activerules.values.kinds import float_elements, is_number_array, is_object, leaves_of
from activerules.values.layout import layout_of


def argument_kind(ty: types.Type) -> ArgumentKind:
    """The kind of an argument of a function with rules, for the engine."""
    if is_number_array(ty):
        return "memory"
    if is_object(ty):
        return "object"
    return "value" if layout_of(ty).activity == "active" else "const"


def result_kind(ty: types.Type) -> ResultKind:
    """The kind of the result of a function with rules, for the engine."""
    if ty == types.none:
        return "none"
    if is_number_array(ty) or element_of(ty) is not None:
        return "memory"
    return "value" if argument_kind(ty) == "value" else "const"


def element_of(ty: types.Type) -> Type | None:
    """The type of the floats in a returned array, or in all arrays of a tuple (R1); None for
    anything else, as for a tuple with a text, whose memory has an owner but no shadow.
    """
    if is_number_array(ty):
        return float_elements(ty)
    if not is_split(ty) or any(isinstance(leaf, types.UnicodeType) for leaf in leaves_of(ty)):
        return None
    elements = set(map(float_elements, array_types(ty)))
    return elements.pop() if len(elements) == 1 else None


def floats_beside_arrays(ty: types.Type) -> tuple[tuple[int, Type], ...]:
    """The offsets and types of the floats in a returned tuple with arrays."""
    if not isinstance(ty, types.BaseTuple) or result_kind(ty) != "memory":
        return ()
    return float_offsets(ty)


def activity_of_result(ty: types.Type, activity: ActivityName) -> str | type[Annotation]:
    """The activity that selects a rule; of a tuple with arrays it depends on the other entries."""
    if activity != "duplicated" or not isinstance(ty, types.BaseTuple):
        return activity
    return MixedDuplicated if layout_of(ty).carried.by_value else Duplicated


def array_types(ty: types.Type) -> list[types.Array]:
    """The types of the arrays in a result."""
    return [leaf for leaf in leaves_of(ty) if isinstance(leaf, types.Array)]


def arrays_in(builder: Builder, ty: types.Type, value: Value) -> Iterator[tuple[types.Array, Any]]:
    """The arrays in a result, as LLVM values, with their types."""
    for leaf, part in leaves_in(builder, ty, value):
        if isinstance(leaf, types.Array):
            yield leaf, part
