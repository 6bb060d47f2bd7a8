"""Copies of a caller's typed lists for the duration of a call, and their transfer back.

Needs       typed lists, in code of the AD target
Gives       intrinsics: `store_floats`, `finish`, `lengthen`, which leave in a list what its copy
            holds; `note_list`, `note_array`, `note_arrays` and `is_reached_twice`, which tell
            whether replaced memory is also reachable by another path; `refusing`: raises if it is
Invariants  L1  the engine sees only that floats are stored
            L2  an intrinsic that raises releases its arguments

Notes are rows in memory that the engine does not see: the groups an extent belongs to (bits), the
groups it must not overlap (bits), and its bytes. Two rows overlap if they have a byte in common.
"""

# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from activerules.errors import NotYetSupported, ShadowMismatch
from activerules.numba_ext.codegen.protocols import Emit, Value, doing, emitting
from activerules.numba_ext.replaced.local_objects import (
    ArrayMemory,
    arrays_in_value,
    copy_floats,
    raise_if,
)
from activerules.values import object_runtime
from activerules.values.memory_layout import LIST_ITEMS, ItemMemory, declared_of
from activerules.values.regions import extent_of_region

_I64 = ir.IntType(64)
_BYTES = cgutils.voidptr_t
_SHARED = (
    "a list that is changed is reached by two paths",
    "each path has a shadow of its own, and both have the same final value",
    "pass a list of its own",
)
_OTHER_WAY = (
    "an array that is replaced in a Duplicated list is also reached by another path",
    "its shadow has the cotangents of both the array itself and the one that replaces it",
    "write into the array: rows[k][:] = x",
)
REFUSALS = (_SHARED, _OTHER_WAY)


# --- addresses ---


def _struct(em: Emit, ty: Any, value: Value) -> Any:
    """The pointer to the struct `NB_List` of a typed list."""
    return em.context.make_helper(em.builder, ty, value=value).data


def _items(em: Emit, ty: Any, value: Value) -> Value:
    address = cgutils.pointer_add(em.builder, _struct(em, ty, value), _I64(LIST_ITEMS))
    return em.builder.load(em.builder.bitcast(address, _BYTES.as_pointer()))


# --- what becomes of the lists ---


@intrinsic
def store_floats(typing_context, target, source, index):
    """Copy the floats of an item of one list to the other."""
    declared = declared_of(ItemMemory(target.item_type))
    assert declared is not None

    def emit(em: Emit, args: Sequence[Value]) -> None:
        item = em.context.get_data_type(target.item_type).as_pointer()
        items = (
            em.builder.gep(em.builder.bitcast(_items(em, target, held), item), [args[2]])
            for held in args[:2]
        )
        copy_floats(em.builder, declared, *items)

    return types.none(target, source, types.intp), doing(emit)


@intrinsic
def finish(typing_context, original, copy):
    """Replace the items of a list by those of its copy, up to the shorter length."""
    return types.none(original, copy), doing(lambda em, args: _finish(em, original, *args))


def _finish(em: Emit, ty: Any, original: Any, copy: Any) -> None:
    items = (_items(em, ty, value) for value in (original, copy))
    structs = (_struct(em, ty, value) for value in (original, copy))
    object_runtime.call(em.builder, "items", *items, *structs)


@intrinsic
def lengthen(typing_context, original, copy):
    """Make a list as long as its copy, with the copy's items appended."""
    return types.none(original, copy), doing(lambda em, args: _lengthen(em, original, *args))


def _lengthen(em: Emit, ty: Any, original: Any, copy: Any) -> None:
    structs = (_struct(em, ty, value) for value in (original, copy))
    object_runtime.call(em.builder, "length", *structs)


def finish_all(em: Emit, numba_type: Any, originals: Any, copies: Any, objects: Any) -> None:
    """Give the lists in a tuple the contents of their copies, where the function raised."""
    unpacked = (
        cgutils.unpack_tuple(em.builder, lists, len(numba_type)) for lists in (originals, copies)
    )
    for ty, original, copy in zip(numba_type, *unpacked, strict=True):
        _finish(em, ty, original, copy)
        _lengthen(em, ty, original, copy)


# --- what is reached twice ---


@intrinsic
def new_notes(typing_context):
    """Allocate rows for notes; `is_reached_twice` frees them."""
    emit = emitting(lambda em, args: object_runtime.call(em.builder, "notes", result=_I64))
    return types.intp(), emit


@intrinsic
def note_array(typing_context, notes, groups, away_from, array):
    """Record the extent of an array for the comparison at the end of the call."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        extent = extent_of_region(em, array, args[3])
        object_runtime.call(em.builder, "note", *args[:3], extent.low, extent.high)

    return types.none(types.intp, types.intp, types.intp, array), doing(emit)


@intrinsic
def note_arrays(typing_context, notes, groups, x):
    """Record the extents of all arrays in a value, also in objects, and of the lists in tuples."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        for ty, value in arrays_in_value(em, x, args[2]):
            extent = extent_of_region(em, ty, value)
            object_runtime.call(em.builder, "note", *args[:2], _I64(0), extent.low, extent.high)

    return types.none(types.intp, types.intp, x), doing(emit)


@intrinsic
def note_list(typing_context, notes, groups, away_from, x):
    """Record the extent of a list."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        low = em.builder.ptrtoint(_struct(em, x, args[3]), _I64)
        object_runtime.call(em.builder, "note", *args[:3], low, em.builder.add(low, _I64(1)))

    return types.none(types.intp, types.intp, types.intp, x), doing(emit)


@intrinsic
def is_reached_twice(typing_context, notes):
    """Whether two rows overlap that must not; frees the notes."""

    def emit(em: Emit, args: Sequence[Value]) -> Value:
        return object_runtime.call(em.builder, "meet", args[0], result=ir.IntType(1))

    return types.boolean(types.intp), emitting(emit)


@intrinsic
def is_another(typing_context, first, last):
    """Whether two arrays differ in their memory, shape or strides."""

    def emit(em: Emit, args: Sequence[Value]) -> Any:
        left, right = (ArrayMemory(em, first, value) for value in args)
        return left.differs(right)

    return types.boolean(first, last), emitting(emit)


def refusing(number: int) -> Any:
    """The intrinsic that raises `REFUSALS[number]`, and releases its arguments."""
    error = (ShadowMismatch, NotYetSupported)[number]

    @intrinsic
    def refuse_if(typing_context, condition, owned):
        def emit(em: Emit, args: Sequence[Value]) -> None:
            released = [(owned, args[1])] * 2  # the tuple, and the variables in it
            raise_if(em, args[0], error, REFUSALS[number], released)

        return types.none(types.boolean, owned), doing(emit)

    return refuse_if
