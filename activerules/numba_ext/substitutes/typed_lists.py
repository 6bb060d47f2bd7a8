"""Typed lists for the AD target: Numba's C functions on them, in a form the engine can analyse.

Numba compiles `numba.typed.List` to calls of C functions that copy items as bytes. They are
replaced: those that only read or set fields of the C struct by LLVM functions of the same name
(`DEFINITIONS`), those that copy items by compiled functions that know the item type
(`SUBSTITUTES`). Both work on Numba's own struct in memory from `malloc`, so that such a list may be
passed to Numba's C code, which frees it.

Invariants  L1  the layout is that of NB_List in numba/cext/listobject.h:
                {i64 size, i64 item_size, i64 allocated, i32 is_mutable, ptr incref, ptr decref,
                ptr items}
            L2  each substitute returns the status, and takes and releases the references, that the
                C function does; a list never shrinks its memory
"""
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, register_jitable
from numba.typed import listobject

from activerules.numba_ext.codegen.protocols import Emit, Value, call_named, emitting
from activerules.values.memory_layout import LIST_ITEMS, LIST_SIZE

_I64 = ir.IntType(64)
_BYTES = cgutils.voidptr_t
_ALLOCATED, _MUTABLE, _WHOLE = 16, 24, 56
_OK, _IMMUTABLE = 0, -5

DEFINITIONS = {
    "numba_list_new": f"""
define linkonce_odr i32 @numba_list_new(ptr %out, i64 %item.size, i64 %allocated) alwaysinline {{
  %lp = call ptr @malloc(i64 {_WHOLE})
  %failed = icmp eq ptr %lp, null
  br i1 %failed, label %none, label %made
none:
  ret i32 -2
made:
  %item.address = getelementptr i8, ptr %lp, i64 8
  %allocated.address = getelementptr i8, ptr %lp, i64 {_ALLOCATED}
  %mutable.address = getelementptr i8, ptr %lp, i64 24
  %incref.address = getelementptr i8, ptr %lp, i64 32
  %decref.address = getelementptr i8, ptr %lp, i64 40
  %items.address = getelementptr i8, ptr %lp, i64 {LIST_ITEMS}
  store i64 0, ptr %lp
  store i64 %item.size, ptr %item.address
  store i64 %allocated, ptr %allocated.address
  store i32 1, ptr %mutable.address
  store i64 0, ptr %incref.address
  store i64 0, ptr %decref.address
  store ptr null, ptr %items.address
  store ptr %lp, ptr %out
  %empty = icmp eq i64 %allocated, 0
  br i1 %empty, label %done, label %filled
filled:
  %bytes = mul i64 %allocated, %item.size
  %items = call ptr @malloc(i64 %bytes)
  %short = icmp eq ptr %items, null
  br i1 %short, label %none, label %kept
kept:
  store ptr %items, ptr %items.address
  br label %done
done:
  ret i32 0
}}""",
    "numba_list_set_method_table": """
define linkonce_odr void @numba_list_set_method_table(ptr %lp, ptr %table) alwaysinline {
  %incref.address = getelementptr i8, ptr %lp, i64 32
  %decref.address = getelementptr i8, ptr %lp, i64 40
  %second = getelementptr i8, ptr %table, i64 8
  %incref = load i64, ptr %table
  %decref = load i64, ptr %second
  store i64 %incref, ptr %incref.address
  store i64 %decref, ptr %decref.address
  ret void
}""",
    "numba_list_size_address": """
define linkonce_odr i64 @numba_list_size_address(ptr %lp) alwaysinline {
  %address = ptrtoint ptr %lp to i64
  ret i64 %address
}""",
    "numba_list_set_is_mutable": """
define linkonce_odr void @numba_list_set_is_mutable(ptr %lp, i64 %mutable) alwaysinline {
  %address = getelementptr i8, ptr %lp, i64 24
  %short = trunc i64 %mutable to i32
  store i32 %short, ptr %address
  ret void
}""",
    **{
        f"numba_list_{name}": f"""
define linkonce_odr {ty} @numba_list_{name}(ptr %lp) alwaysinline {{
  %address = getelementptr i8, ptr %lp, i64 {offset}
  %field = load {ty}, ptr %address
  ret {ty} %field
}}"""
        for name, ty, offset in (
            ("length", "i64", LIST_SIZE),
            ("allocated", "i64", _ALLOCATED),
            ("is_mutable", "i32", _MUTABLE),
            ("base_ptr", "ptr", LIST_ITEMS),
        )
    },
}
"""LLVM IR of the C functions that copy no items, by name."""


# --- fields and items ---


def _field(em: Emit, numba_type: Any, value: Value, offset: int, ty: ir.Type) -> Value:
    """The address of a field in the struct of a list."""
    lp = em.context.make_helper(em.builder, numba_type, value=value).data
    address = cgutils.pointer_add(em.builder, lp, _I64(offset))
    return em.builder.bitcast(address, ty.as_pointer())


def _item(em: Emit, ty: Any, value: Value, index: Value) -> Value:
    """The address of an item of a list."""
    items = em.builder.load(_field(em, ty, value, LIST_ITEMS, _BYTES))
    item_type = em.context.get_data_type(ty.item_type)
    return em.builder.gep(em.builder.bitcast(items, item_type.as_pointer()), [index])


@intrinsic
def _set_length(typing_context, lst, length):
    def emit(em: Emit, args: Sequence[Value]) -> None:
        em.builder.store(args[1], _field(em, lst, args[0], LIST_SIZE, _I64))

    return types.void(lst, types.intp), emitting(emit)


@intrinsic
def _put(typing_context, lst, index, item):
    """Store an item, with a new reference to it."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        data = em.context.data_model_manager[lst.item_type].as_data(em.builder, args[2])
        em.builder.store(data, _item(em, lst, args[0], args[1]))
        em.context.nrt.incref(em.builder, lst.item_type, args[2])

    return types.void(lst, types.intp, lst.item_type), emitting(emit)


@intrinsic
def _drop(typing_context, lst, index):
    """Drop the list's reference to an item."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        model = em.context.data_model_manager[lst.item_type]
        item = model.load_from_data_pointer(em.builder, _item(em, lst, *args))
        em.context.nrt.decref(em.builder, lst.item_type, item)

    return types.void(lst, types.intp), emitting(emit)


@intrinsic
def _move(typing_context, lst, source, target):
    """Copy an item from one address to another, with its reference."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        origin = _item(em, lst, args[0], args[1])
        em.builder.store(em.builder.load(origin), _item(em, lst, args[0], args[2]))

    return types.void(lst, types.intp, types.intp), emitting(emit)


@intrinsic
def _enlarge(typing_context, lst, capacity):
    """Move the items to new memory."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        builder, item_type = em.builder, em.context.get_data_type(lst.item_type)
        length = builder.load(_field(em, lst, args[0], LIST_SIZE, _I64))
        address = _field(em, lst, args[0], LIST_ITEMS, _BYTES)
        old = builder.load(address)
        size = builder.mul(args[1], _I64(em.context.get_abi_sizeof(item_type)))
        new = call_named(builder, "malloc", _BYTES, [size])
        em.raise_if(cgutils.is_null(builder, new), MemoryError, ("a list is too long",))
        origin, target = (builder.bitcast(p, item_type.as_pointer()) for p in (old, new))
        with cgutils.for_range(builder, length) as loop:
            item = builder.load(builder.gep(origin, [loop.index]))
            builder.store(item, builder.gep(target, [loop.index]))
        builder.store(new, address)
        builder.store(args[1], _field(em, lst, args[0], _ALLOCATED, _I64))
        with builder.if_then(cgutils.is_not_null(builder, old)):
            call_named(builder, "free", ir.VoidType(), [old])

    return types.void(lst, types.intp), emitting(emit)


# --- substitutes of the C functions that copy items ---


@register_jitable
def _append(lst, item):
    if not lst._is_mutable():
        return _IMMUTABLE
    length = len(lst)
    if length == lst._allocated():
        needed = length + 1
        _enlarge(lst, (needed >> 3) + (3 if needed < 9 else 6) + needed)
    _put(lst, length, item)
    _set_length(lst, length + 1)
    return _OK


@register_jitable
def _setitem(lst, index, item):
    if not lst._is_mutable():
        return _IMMUTABLE
    _drop(lst, index)
    _put(lst, index, item)
    return _OK


@register_jitable
def _delitem(lst, index):
    if not lst._is_mutable():
        return _IMMUTABLE
    last = len(lst) - 1
    _drop(lst, index)
    for k in range(index, last):
        _move(lst, k + 1, k)
    _set_length(lst, last)
    return _OK


@register_jitable
def _delete_slice(lst, start, stop, step):
    if not lst._is_mutable():
        return _IMMUTABLE
    count = len(range(start, stop, step))
    if count == 0:
        return _OK
    if step < 0:
        start, step = start + (count - 1) * step, -step
    end = start + (count - 1) * step
    length = start
    for k in range(start, len(lst)):
        if k <= end and (k - start) % step == 0:
            _drop(lst, k)
        else:
            _move(lst, k, length)
            length += 1
    _set_length(lst, length)
    return _OK


SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    listobject._list_append: _append,
    listobject._list_setitem: _setitem,
    listobject._list_delitem: _delitem,
    listobject._list_delete_slice: _delete_slice,
}
"""The substitutes of Numba's intrinsics on lists, in code for the AD target."""
