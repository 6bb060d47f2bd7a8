"""Typed dictionaries for the AD target: Numba's C functions on them, in a form that the engine can
analyse.

Values of a dictionary are read, written and moved by visible code. Keys carry no derivative and are
handled by functions whose bodies the engine does not see (`dict_runtime`). `SUBSTITUTES` replace
Numba's intrinsics, `iteration` replaces the implementation of loops. All work on Numba's own struct
in memory from `malloc`, so that such a dictionary may be passed to Numba's C code, which frees it.

Invariants  D1  each substitute has the signature of the intrinsic, returns its status, and takes
                and releases the same references
            D2  dictionaries with keys that may hold floats are left to Numba's C code, into which
                the engine lets no active value flow
"""
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import RefType, impl_ret_borrowed, iternext_impl
from numba.extending import intrinsic, register_jitable
from numba.typed import dictobject
from numba.typed.typedobjectutils import _container_get_data

from activerules.numba_ext.codegen.protocols import (
    Builder,
    Context,
    Emit,
    Value,
    call_named,
    emitting,
)
from activerules.values.dict_runtime import call
from activerules.values.layout import layout_of
from activerules.values.memory_layout import DICT_KEYS, entry_sizes, value_offset

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_BYTES = cgutils.voidptr_t
_VOID = ir.VoidType()
_OK, _REPLACED, _FAILED, _EMPTY = 0, 1, -5, -4
_STRUCT_SIZE = 16
_TOO_LARGE = "a dictionary is too large"


# --- addresses ---


def _keys_address(builder: Builder, data: Value) -> Value:
    address = cgutils.pointer_add(builder, data, _I64(DICT_KEYS))
    return builder.bitcast(address, _BYTES.as_pointer())


def _data_of(em: Emit, ty: Any, value: Value) -> Any:
    """The pointer to the struct `NB_Dict` of a dictionary."""
    return _container_get_data(em.context, em.builder, ty, value)


def _value_address(em: Emit, ty: Any, keys: Value, ix: Value) -> Value:
    """The address of the value of an entry."""
    key_size, _, entry_size = entry_sizes(em.context, ty.key_type, ty.value_type)
    slot = call(em, "slot", _I64, keys, ix)
    entries = em.builder.bitcast(keys, ir.ArrayType(_I8, entry_size).as_pointer())
    address = em.builder.gep(entries, [slot, _I64(0)])
    address = cgutils.pointer_add(em.builder, address, _I64(value_offset(key_size)))
    return em.builder.bitcast(address, em.context.get_data_type(ty.value_type).as_pointer())


def _current_value_address(em: Emit, ty: Any, value: Value, ix: Value) -> Any:
    keys = em.builder.load(_keys_address(em.builder, _data_of(em, ty, value)))
    return _value_address(em, ty, keys, ix)


def _stored_key(em: Emit, key_type: Any, key: Value) -> Value:
    """The address of a copy of the key, with all padding bytes zero."""
    data = em.context.data_model_manager[key_type].as_data(em.builder, key)
    address = cgutils.alloca_once_value(em.builder, data)
    cgutils.memset_padding(em.builder, address)
    return em.builder.bitcast(address, _BYTES)


def _key_of(em: Emit, ty: Any, data: Value, ix: Value) -> Value:
    """The key of an entry, borrowed."""
    model = em.context.data_model_manager[ty.key_type]
    address = cgutils.alloca_once(em.builder, model.get_data_type())
    call(em, "key", _VOID, data, ix, em.builder.bitcast(address, _BYTES))
    return model.load_from_data_pointer(em.builder, address)


def _value_of(em: Emit, ty: Any, value: Value, ix: Value) -> Value:
    """The value of an entry, borrowed."""
    address = _current_value_address(em, ty, value, ix)
    return em.context.data_model_manager[ty.value_type].load_from_data_pointer(em.builder, address)


def _new_memory(em: Emit, size: Value) -> Any:
    memory = call_named(em.builder, "malloc", _BYTES, [size])
    em.raise_if(cgutils.is_null(em.builder, memory), MemoryError, (_TOO_LARGE,))
    return memory


# --- substitutes of Numba's intrinsics ---


@intrinsic
def _new_sized(typing_context, n_keys, keyty, valty):
    if not layout_of(keyty.instance_type).is_plain:
        return dictobject._dict_new_sized._defn(typing_context, n_keys, keyty, valty)

    def emit(em: Emit, args: Sequence[Value]) -> Any:
        types_ = (keyty.instance_type, valty.instance_type)
        sizes = [_I64(size) for size in entry_sizes(em.context, *types_)]
        size = call(em, "size", _I64, args[0])
        keys = _new_memory(em, call(em, "bytes", _I64, size, sizes[2]))
        call(em, "begin", _VOID, keys, size, *sizes)
        data = _new_memory(em, _I64(_STRUCT_SIZE))
        em.builder.store(_I64(0), em.builder.bitcast(data, _I64.as_pointer()))
        em.builder.store(keys, _keys_address(em.builder, data))
        return data

    return types.voidptr(n_keys, keyty, valty), emitting(emit)


@intrinsic
def _lookup(typing_context, d, key, hashval):
    if not layout_of(d.key_type).is_plain:
        return dictobject._dict_lookup._defn(typing_context, d, key, hashval)

    def emit(em: Emit, args: Sequence[Value]) -> Value:
        context, builder = em.context, em.builder
        ix = _found(em, d, key, args)
        none = context.make_optional_none(builder, d.value_type)
        result = cgutils.alloca_once_value(builder, none)
        with builder.if_then(builder.icmp_signed(">=", ix, _I64(0))):
            value = _value_of(em, d, args[0], ix)
            context.nrt.incref(builder, d.value_type, value)
            some = context.make_optional_value(builder, d.value_type, value)
            builder.store(some, result)
        return cgutils.pack_struct(builder, [ix, builder.load(result)])

    result_type = types.Tuple([types.intp, types.Optional(d.value_type)])
    return result_type(d, key, hashval), emitting(emit)


def _found(em: Emit, d: Any, key_type: Any, args: Sequence[Value], change: str = "find") -> Value:
    key = _stored_key(em, key_type, args[1])
    return call(em, change, _I64, _data_of(em, d, args[0]), key, args[2])


@intrinsic
def _find(typing_context, d, key, hashval):
    """The index of a key's entry, -1 if there is none."""
    emit = emitting(lambda em, args: _found(em, d, d.key_type, args))
    return types.intp(d, d.key_type, types.intp), emit


@intrinsic
def _add(typing_context, d, key, hashval):
    """Add a missing key to a table that is not full; returns the index of its entry."""
    emit = emitting(lambda em, args: _found(em, d, d.key_type, args, "add"))
    return types.intp(d, d.key_type, types.intp), emit


@intrinsic
def _usable(typing_context, d):
    """The number of keys that can be added without enlarging the table."""
    emit = emitting(lambda em, args: call(em, "usable", _I64, _data_of(em, d, args[0])))
    return types.intp(d), emit


@intrinsic
def _put(typing_context, d, ix, value):
    """Store a value, with a new reference to it."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        em.context.nrt.incref(em.builder, d.value_type, args[2])
        data = em.context.data_model_manager[d.value_type].as_data(em.builder, args[2])
        em.builder.store(data, _current_value_address(em, d, args[0], args[1]))

    return types.void(d, types.intp, d.value_type), emitting(emit)


@intrinsic
def _drop(typing_context, d, ix):
    """Drop the dictionary's reference to a value."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        em.context.nrt.decref(em.builder, d.value_type, _value_of(em, d, *args))

    return types.void(d, types.intp), emitting(emit)


@intrinsic
def _forget(typing_context, d, hashval, ix):
    """Remove an entry whose value was dropped."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        address = _current_value_address(em, d, args[0], args[2])
        em.builder.store(address.type.pointee(None), address)
        call(em, "remove", _VOID, _data_of(em, d, args[0]), args[1], args[2])

    return types.void(d, types.intp, types.intp), emitting(emit)


@intrinsic
def _enlarge(typing_context, d):
    """Move keys and values to a new, larger table."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        builder, data = em.builder, _data_of(em, d, args[0])
        address = _keys_address(builder, data)
        size = call(em, "larger", _I64, data)
        entry_size = _I64(entry_sizes(em.context, d.key_type, d.value_type)[2])
        new = _new_memory(em, call(em, "bytes", _I64, size, entry_size))
        call(em, "fill", _VOID, data, new, size)
        old = builder.load(address)
        following = cgutils.alloca_once_value(builder, _I64(0))
        length = call_named(builder, "numba_dict_length", _I64, [data])
        with cgutils.for_range(builder, length) as loop:
            ix = call(em, "next", _I64, data, builder.load(following))
            origin = _value_address(em, d, old, ix)
            target = _value_address(em, d, new, loop.index)
            builder.store(builder.load(origin), target)
            builder.store(builder.add(ix, _I64(1)), following)
        builder.store(new, address)
        call_named(builder, "free", _VOID, [old])

    return types.void(d), emitting(emit)


@register_jitable
def _insert_followed(d, key, hashval, value):
    ix = _find(d, key, hashval)
    if ix < -1:
        return _FAILED
    if ix >= 0:
        _drop(d, ix)
        _put(d, ix, value)
        return _REPLACED
    if _usable(d) <= 0:
        _enlarge(d)
    _put(d, _add(d, key, hashval), value)
    return _OK


@intrinsic
def _insert(typing_context, d, key, hashval, value):
    if not layout_of(d.key_type).is_plain:
        return dictobject._dict_insert._defn(typing_context, d, key, hashval, value)
    signature = types.int32(d, d.key_type, types.intp, d.value_type)
    return signature, _lowering_of(_insert_followed)


@register_jitable
def _delete_followed(d, hashval, ix):
    _drop(d, ix)
    _forget(d, hashval, ix)
    return _OK


@intrinsic
def _delete(typing_context, d, hashval, ix):
    if not layout_of(d.key_type).is_plain:
        return dictobject._dict_delitem._defn(typing_context, d, hashval, ix)
    return types.int32(d, hashval, types.intp), _lowering_of(_delete_followed)


def _lowering_of(function: Any) -> Callable[..., Any]:
    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        return context.compile_internal(builder, function, signature, args)

    return codegen


@intrinsic
def _pop_last(typing_context, d):
    if not layout_of(d.key_type).is_plain:
        return dictobject._dict_popitem._defn(typing_context, d)
    item_type = types.Tuple([d.key_type, d.value_type])

    def emit(em: Emit, args: Sequence[Value]) -> Value:
        context, builder = em.context, em.builder
        data = _data_of(em, d, args[0])
        none = context.make_optional_none(builder, item_type)
        result = cgutils.alloca_once_value(builder, none)
        status = cgutils.alloca_once_value(builder, cgutils.int32_t(_EMPTY))
        ix = call(em, "last", _I64, data)
        with builder.if_then(builder.icmp_signed(">=", ix, _I64(0))):
            key = _key_of(em, d, data, ix)
            value = _value_of(em, d, args[0], ix)
            address = _current_value_address(em, d, args[0], ix)
            builder.store(address.type.pointee(None), address)
            context.nrt.incref(builder, d.key_type, key)
            call(em, "pop", _VOID, data, ix)
            item = context.make_tuple(builder, item_type, [key, value])
            builder.store(context.make_optional_value(builder, item_type, item), result)
            builder.store(cgutils.int32_t(_OK), status)
        return cgutils.pack_struct(builder, [builder.load(status), builder.load(result)])

    return types.Tuple([types.int32, types.Optional(item_type)])(d), emitting(emit)


SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    dictobject._dict_new_sized: _new_sized,
    dictobject._dict_lookup: _lookup,
    dictobject._dict_insert: _insert,
    dictobject._dict_delitem: _delete,
    dictobject._dict_popitem: _pop_last,
}
"""The substitutes of Numba's intrinsics on dictionaries, in code for the AD target."""


# --- loops ---

_STATE = ir.ArrayType(_I64, 3)
_POSITION, _TABLE, _USED = range(3)
_ITERABLES = (
    types.DictItemsIterableType,
    types.DictKeysIterableType,
    types.DictValuesIterableType,
)


def iteration(name: Any, arg_types: Sequence[Any]) -> Any:
    """The implementation of `getiter` and `iternext` of a dictionary, its keys, values and items,
    for the AD target; None if Numba's own is used.
    """
    ty = arg_types[0] if arg_types else None
    is_dict = isinstance(ty, types.DictType)
    if name == "getiter" and is_dict and layout_of(ty.key_type).is_plain:
        return _begin_keys
    if name == "getiter" and isinstance(ty, _ITERABLES):
        return _begin if layout_of(ty.parent.key_type).is_plain else None
    if name == "iternext" and isinstance(ty, types.DictIteratorType):
        return _next if layout_of(ty.parent.key_type).is_plain else None
    return None


def _begin_keys(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Any:
    ty = signature.args[0]
    iterator_type = types.DictKeysIterableType(ty).iterator_type
    iterator = context.make_helper(builder, iterator_type)
    iterator.parent = args[0]
    return _begun(Emit(context, builder), signature, iterator, ty)


def _begin(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Any:
    ty = signature.args[0]
    iterator = context.make_helper(builder, ty.iterator_type, args[0])
    return _begun(Emit(context, builder), signature, iterator, ty.parent)


def _begun(em: Emit, signature: Any, iterator: Any, ty: Any) -> Value:
    builder, data = em.builder, _data_of(em, ty, iterator.parent)
    table = call(em, "table", _I64, data)
    em.raise_if(builder.icmp_unsigned("==", table, _I64(0)), MemoryError, (_TOO_LARGE,))
    state = cgutils.alloca_once(builder, _STATE)
    used = call_named(builder, "numba_dict_length", _I64, [data])
    for k, number in ((_POSITION, _I64(0)), (_TABLE, table), (_USED, used)):
        builder.store(number, cgutils.gep_inbounds(builder, state, 0, k))
    iterator.state = builder.bitcast(state, _BYTES)
    return impl_ret_borrowed(em.context, builder, signature.return_type, iterator._getvalue())


@iternext_impl(RefType.BORROWED)
def _next(
    context: Context, builder: Builder, signature: Any, args: Sequence[Value], result: Any
) -> None:
    em, iterator_type = Emit(context, builder), signature.args[0]
    iterator = context.make_helper(builder, iterator_type, args[0])
    state = builder.bitcast(iterator.state, _STATE.as_pointer())
    position = cgutils.gep_inbounds(builder, state, 0, _POSITION)
    numbers = [
        builder.load(cgutils.gep_inbounds(builder, state, 0, k)) for k in (_POSITION, _TABLE, _USED)
    ]
    data = _data_of(em, iterator_type.parent, iterator.parent)
    ix = call(em, "follow", _I64, data, *numbers)
    is_valid = builder.icmp_signed(">=", ix, _I64(0))
    result.set_valid(is_valid)
    with builder.if_then(is_valid):
        builder.store(builder.add(ix, _I64(1)), position)
        result.yield_(_yielded(em, iterator_type, iterator.parent, ix))


def _yielded(em: Emit, iterator_type: Any, d: Any, ix: Value) -> Any:
    ty, iterable = iterator_type.parent, iterator_type.iterable
    if isinstance(iterable, types.DictValuesIterableType):
        return _value_of(em, ty, d, ix)
    key = _key_of(em, ty, _data_of(em, ty, d), ix)
    if isinstance(iterable, types.DictKeysIterableType):
        return key
    value = _value_of(em, ty, d, ix)
    return em.context.make_tuple(em.builder, iterator_type.yield_type, [key, value])
