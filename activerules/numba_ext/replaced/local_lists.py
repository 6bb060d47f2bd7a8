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
from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.replaced.local_objects import (
    ArrayMemory,
    arrays_in_value,
    copy_floats,
    raise_if,
)
from activerules.numba_ext.substitutes import object_runtime
from activerules.values.extents import extent_of
from activerules.values.memory_layout import LIST_ITEMS, ItemMemory, declared_of

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


def _struct(context: Context, builder: Builder, ty: Any, value: Value) -> Any:
    """The pointer to the struct `NB_List` of a typed list."""
    return context.make_helper(builder, ty, value=value).data


def _items(context: Context, builder: Builder, ty: Any, value: Value) -> Value:
    address = cgutils.pointer_add(builder, _struct(context, builder, ty, value), _I64(LIST_ITEMS))
    return builder.load(builder.bitcast(address, _BYTES.as_pointer()))


# --- what becomes of the lists ---


@intrinsic
def store_floats(typing_context, target, source, index):
    """Copy the floats of an item of one list to the other."""
    declared = declared_of(ItemMemory(target.item_type))
    assert declared is not None

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        item = context.get_data_type(target.item_type).as_pointer()
        items = (
            builder.gep(builder.bitcast(_items(context, builder, target, held), item), [args[2]])
            for held in args[:2]
        )
        copy_floats(builder, declared, *items)
        return context.get_dummy_value()

    return types.none(target, source, types.intp), codegen


@intrinsic
def finish(typing_context, original, copy):
    """Replace the items of a list by those of its copy, up to the shorter length."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        _finish(context, builder, original, *args)
        return context.get_dummy_value()

    return types.none(original, copy), codegen


def _finish(context: Context, builder: Builder, ty: Any, original: Any, copy: Any) -> None:
    items = (_items(context, builder, ty, value) for value in (original, copy))
    structs = (_struct(context, builder, ty, value) for value in (original, copy))
    object_runtime.call(builder, "items", *items, *structs)


@intrinsic
def lengthen(typing_context, original, copy):
    """Make a list as long as its copy, with the copy's items appended."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        _lengthen(context, builder, original, *args)
        return context.get_dummy_value()

    return types.none(original, copy), codegen


def _lengthen(context: Context, builder: Builder, ty: Any, original: Any, copy: Any) -> None:
    structs = (_struct(context, builder, ty, value) for value in (original, copy))
    object_runtime.call(builder, "length", *structs)


def finish_all(
    context: Context, builder: Builder, numba_type: Any, originals: Any, copies: Any, objects: Any
) -> None:
    """Give the lists in a tuple the contents of their copies, where the function raised."""
    unpacked = (
        cgutils.unpack_tuple(builder, lists, len(numba_type)) for lists in (originals, copies)
    )
    for ty, original, copy in zip(numba_type, *unpacked, strict=True):
        _finish(context, builder, ty, original, copy)
        _lengthen(context, builder, ty, original, copy)


# --- what is reached twice ---


def _note(
    builder: Builder, notes: Any, groups: Any, away_from: Any, low: Value, high: Value
) -> None:
    object_runtime.call(builder, "note", notes, groups, away_from, low, high)


@intrinsic
def new_notes(typing_context):
    """Allocate rows for notes; `is_reached_twice` frees them."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        return object_runtime.call(builder, "notes", result=_I64)

    return types.intp(), codegen


@intrinsic
def note_array(typing_context, notes, groups, away_from, array):
    """Record the extent of an array for the comparison at the end of the call."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        proxy = context.make_array(array)(context, builder, args[3])
        extent = extent_of(builder, array, proxy)
        _note(builder, *args[:3], extent.low, extent.high)
        return context.get_dummy_value()

    return types.none(types.intp, types.intp, types.intp, array), codegen


@intrinsic
def note_arrays(typing_context, notes, groups, x):
    """Record the extents of all arrays in a value, also in objects, and of the lists in tuples."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        for ty, value in arrays_in_value(context, builder, x, args[2]):
            extent = extent_of(builder, ty, context.make_array(ty)(context, builder, value))
            _note(builder, args[0], args[1], _I64(0), extent.low, extent.high)
        return context.get_dummy_value()

    return types.none(types.intp, types.intp, x), codegen


@intrinsic
def note_list(typing_context, notes, groups, away_from, x):
    """Record the extent of a list."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        low = builder.ptrtoint(_struct(context, builder, x, args[3]), _I64)
        _note(builder, *args[:3], low, builder.add(low, _I64(1)))
        return context.get_dummy_value()

    return types.none(types.intp, types.intp, types.intp, x), codegen


@intrinsic
def is_reached_twice(typing_context, notes):
    """Whether two rows overlap that must not; frees the notes."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        return object_runtime.call(builder, "meet", args[0], result=ir.IntType(1))

    return types.boolean(types.intp), codegen


@intrinsic
def is_another(typing_context, first, last):
    """Whether two arrays differ in their memory, shape or strides."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Any:
        left, right = (ArrayMemory(context, builder, first, value) for value in args)
        return left.differs(right)

    return types.boolean(first, last), codegen


def refusing(number: int) -> Any:
    """The intrinsic that raises `REFUSALS[number]`, and releases its arguments."""
    error = (ShadowMismatch, NotYetSupported)[number]

    @intrinsic
    def refuse_if(typing_context, condition, owned):
        def codegen(
            context: Context, builder: Builder, signature: Any, args: Sequence[Value]
        ) -> Value:
            released = [(owned, args[1])] * 2  # the tuple, and the variables in it
            raise_if(context, builder, args[0], error, REFUSALS[number], released)
            return context.get_dummy_value()

        return types.none(types.boolean, owned), codegen

    return refuse_if
