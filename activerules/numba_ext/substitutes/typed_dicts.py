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

from activerules.numba_ext.codegen.protocols import Builder, Context, Value, call_named
from activerules.values.dict_tables import PREFIX
from activerules.values.layout import layout_of
from activerules.values.memory_layout import DICT_KEYS, entry_sizes, value_offset

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_BYTES = cgutils.voidptr_t
_VOID = ir.VoidType()
_OK, _REPLACED, _FAILED, _EMPTY = 0, 1, -5, -4
_STRUCT_SIZE = 16


# --- addresses ---


def _hidden(builder: Builder, name: str, result: ir.Type, *operands: Any) -> Value:
    return call_named(builder, f"{PREFIX}{name}", result, operands)


def _keys_address(builder: Builder, data: Value) -> Value:
    address = cgutils.pointer_add(builder, data, _I64(DICT_KEYS))
    return builder.bitcast(address, _BYTES.as_pointer())


def _value_address(context: Context, builder: Builder, ty: Any, keys: Value, ix: Value) -> Value:
    """The address of the value of an entry."""
    key_size, _, entry_size = entry_sizes(context, ty.key_type, ty.value_type)
    slot = _hidden(builder, "slot", _I64, keys, ix)
    entries = builder.bitcast(keys, ir.ArrayType(_I8, entry_size).as_pointer())
    address = builder.gep(entries, [slot, _I64(0)])
    address = cgutils.pointer_add(builder, address, _I64(value_offset(key_size)))
    return builder.bitcast(address, context.get_data_type(ty.value_type).as_pointer())


def _current_value_address(
    context: Context, builder: Builder, ty: Any, value: Value, ix: Value
) -> Any:
    data = _container_get_data(context, builder, ty, value)
    keys = builder.load(_keys_address(builder, data))
    return _value_address(context, builder, ty, keys, ix)


def _stored_key(context: Context, builder: Builder, key_type: Any, key: Value) -> Value:
    """The address of a copy of the key, with all padding bytes zero."""
    data = context.data_model_manager[key_type].as_data(builder, key)
    address = cgutils.alloca_once_value(builder, data)
    cgutils.memset_padding(builder, address)
    return builder.bitcast(address, _BYTES)


def _key_of(context: Context, builder: Builder, ty: Any, data: Value, ix: Value) -> Value:
    """The key of an entry, borrowed."""
    model = context.data_model_manager[ty.key_type]
    address = cgutils.alloca_once(builder, model.get_data_type())
    _hidden(builder, "key", _VOID, data, ix, builder.bitcast(address, _BYTES))
    return model.load_from_data_pointer(builder, address)


def _value_of(context: Context, builder: Builder, ty: Any, value: Value, ix: Value) -> Value:
    """The value of an entry, borrowed."""
    address = _current_value_address(context, builder, ty, value, ix)
    return context.data_model_manager[ty.value_type].load_from_data_pointer(builder, address)


def _new_memory(context: Context, builder: Builder, size: Value) -> Any:
    memory = call_named(builder, "malloc", _BYTES, [size])
    with cgutils.if_unlikely(builder, cgutils.is_null(builder, memory)):
        context.call_conv.return_user_exc(builder, MemoryError, ("a dictionary is too large",))
    return memory


# --- substitutes of Numba's intrinsics ---


@intrinsic
def _new_sized(typing_context, n_keys, keyty, valty):
    if not layout_of(keyty.instance_type).is_plain:
        return dictobject._dict_new_sized._defn(typing_context, n_keys, keyty, valty)

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Any:
        types_ = (keyty.instance_type, valty.instance_type)
        sizes = [_I64(size) for size in entry_sizes(context, *types_)]
        size = _hidden(builder, "size", _I64, args[0])
        keys = _new_memory(context, builder, _hidden(builder, "bytes", _I64, size, sizes[2]))
        _hidden(builder, "begin", _VOID, keys, size, *sizes)
        data = _new_memory(context, builder, _I64(_STRUCT_SIZE))
        builder.store(_I64(0), builder.bitcast(data, _I64.as_pointer()))
        builder.store(keys, _keys_address(builder, data))
        return data

    return types.voidptr(n_keys, keyty, valty), codegen


@intrinsic
def _lookup(typing_context, d, key, hashval):
    if not layout_of(d.key_type).is_plain:
        return dictobject._dict_lookup._defn(typing_context, d, key, hashval)

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        ix = _found(context, builder, signature.args, args)
        none = context.make_optional_none(builder, d.value_type)
        result = cgutils.alloca_once_value(builder, none)
        with builder.if_then(builder.icmp_signed(">=", ix, _I64(0))):
            value = _value_of(context, builder, d, args[0], ix)
            context.nrt.incref(builder, d.value_type, value)
            some = context.make_optional_value(builder, d.value_type, value)
            builder.store(some, result)
        return cgutils.pack_struct(builder, [ix, builder.load(result)])

    return types.Tuple([types.intp, types.Optional(d.value_type)])(d, key, hashval), codegen


def _found(context: Context, builder: Builder, arg_types: Any, args: Sequence[Value]) -> Value:
    data = _container_get_data(context, builder, arg_types[0], args[0])
    key = _stored_key(context, builder, arg_types[1], args[1])
    return _hidden(builder, "find", _I64, data, key, args[2])


@intrinsic
def _find(typing_context, d, key, hashval):
    """The index of a key's entry, -1 if there is none."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Any:
        return _found(context, builder, signature.args, args)

    return types.intp(d, d.key_type, types.intp), codegen


@intrinsic
def _add(typing_context, d, key, hashval):
    """Add a missing key to a table that is not full; returns the index of its entry."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        data = _container_get_data(context, builder, d, args[0])
        stored = _stored_key(context, builder, d.key_type, args[1])
        return _hidden(builder, "add", _I64, data, stored, args[2])

    return types.intp(d, d.key_type, types.intp), codegen


@intrinsic
def _usable(typing_context, d):
    """The number of keys that can be added without enlarging the table."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        data = _container_get_data(context, builder, d, args[0])
        return _hidden(builder, "usable", _I64, data)

    return types.intp(d), codegen


@intrinsic
def _put(typing_context, d, ix, value):
    """Store a value, with a new reference to it."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> None:
        context.nrt.incref(builder, d.value_type, args[2])
        data = context.data_model_manager[d.value_type].as_data(builder, args[2])
        builder.store(data, _current_value_address(context, builder, d, args[0], args[1]))

    return types.void(d, types.intp, d.value_type), codegen


@intrinsic
def _drop(typing_context, d, ix):
    """Drop the dictionary's reference to a value."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> None:
        context.nrt.decref(builder, d.value_type, _value_of(context, builder, d, *args))

    return types.void(d, types.intp), codegen


@intrinsic
def _forget(typing_context, d, hashval, ix):
    """Remove an entry whose value was dropped."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> None:
        address = _current_value_address(context, builder, d, args[0], args[2])
        builder.store(address.type.pointee(None), address)
        data = _container_get_data(context, builder, d, args[0])
        _hidden(builder, "remove", _VOID, data, args[1], args[2])

    return types.void(d, types.intp, types.intp), codegen


@intrinsic
def _enlarge(typing_context, d):
    """Move keys and values to a new, larger table."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> None:
        data = _container_get_data(context, builder, d, args[0])
        address = _keys_address(builder, data)
        size = _hidden(builder, "larger", _I64, data)
        entry_size = _I64(entry_sizes(context, d.key_type, d.value_type)[2])
        new = _new_memory(context, builder, _hidden(builder, "bytes", _I64, size, entry_size))
        _hidden(builder, "fill", _VOID, data, new, size)
        old = builder.load(address)
        following = cgutils.alloca_once_value(builder, _I64(0))
        with cgutils.for_range(
            builder, call_named(builder, "numba_dict_length", _I64, [data])
        ) as loop:
            ix = _hidden(builder, "next", _I64, data, builder.load(following))
            origin = _value_address(context, builder, d, old, ix)
            target = _value_address(context, builder, d, new, loop.index)
            builder.store(builder.load(origin), target)
            builder.store(builder.add(ix, _I64(1)), following)
        builder.store(new, address)
        call_named(builder, "free", _VOID, [old])

    return types.void(d), codegen


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

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Value:
        data = _container_get_data(context, builder, d, args[0])
        none = context.make_optional_none(builder, item_type)
        result = cgutils.alloca_once_value(builder, none)
        status = cgutils.alloca_once_value(builder, cgutils.int32_t(_EMPTY))
        ix = _hidden(builder, "last", _I64, data)
        with builder.if_then(builder.icmp_signed(">=", ix, _I64(0))):
            key = _key_of(context, builder, d, data, ix)
            value = _value_of(context, builder, d, args[0], ix)
            address = _current_value_address(context, builder, d, args[0], ix)
            builder.store(address.type.pointee(None), address)
            context.nrt.incref(builder, d.key_type, key)
            _hidden(builder, "pop", _VOID, data, ix)
            item = context.make_tuple(builder, item_type, [key, value])
            builder.store(context.make_optional_value(builder, item_type, item), result)
            builder.store(cgutils.int32_t(_OK), status)
        return cgutils.pack_struct(builder, [builder.load(status), builder.load(result)])

    return types.Tuple([types.int32, types.Optional(item_type)])(d), codegen


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
    return _begun(context, builder, signature, iterator, ty)


def _begin(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Any:
    ty = signature.args[0]
    iterator = context.make_helper(builder, ty.iterator_type, args[0])
    return _begun(context, builder, signature, iterator, ty.parent)


def _begun(context: Context, builder: Builder, signature: Any, iterator: Any, ty: Any) -> Value:
    data = _container_get_data(context, builder, ty, iterator.parent)
    table = _hidden(builder, "table", _I64, data)
    with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", table, _I64(0))):
        context.call_conv.return_user_exc(builder, MemoryError, ("a dictionary is too large",))
    state = cgutils.alloca_once(builder, _STATE)
    used = call_named(builder, "numba_dict_length", _I64, [data])
    for k, number in ((_POSITION, _I64(0)), (_TABLE, table), (_USED, used)):
        builder.store(number, cgutils.gep_inbounds(builder, state, 0, k))
    iterator.state = builder.bitcast(state, _BYTES)
    return impl_ret_borrowed(context, builder, signature.return_type, iterator._getvalue())


@iternext_impl(RefType.BORROWED)
def _next(
    context: Context, builder: Builder, signature: Any, args: Sequence[Value], result: Any
) -> None:
    iterator_type = signature.args[0]
    ty = iterator_type.parent
    iterator = context.make_helper(builder, iterator_type, args[0])
    state = builder.bitcast(iterator.state, _STATE.as_pointer())
    position = cgutils.gep_inbounds(builder, state, 0, _POSITION)
    numbers = [
        builder.load(cgutils.gep_inbounds(builder, state, 0, k)) for k in (_POSITION, _TABLE, _USED)
    ]
    data = _container_get_data(context, builder, ty, iterator.parent)
    ix = _hidden(builder, "follow", _I64, data, *numbers)
    is_valid = builder.icmp_signed(">=", ix, _I64(0))
    result.set_valid(is_valid)
    with builder.if_then(is_valid):
        builder.store(builder.add(ix, _I64(1)), position)
        result.yield_(_yielded(context, builder, iterator_type, iterator.parent, ix))


def _yielded(context: Context, builder: Builder, iterator_type: Any, d: Any, ix: Value) -> Any:
    ty, iterable = iterator_type.parent, iterator_type.iterable
    if isinstance(iterable, types.DictValuesIterableType):
        return _value_of(context, builder, ty, d, ix)
    data = _container_get_data(context, builder, ty, d)
    key = _key_of(context, builder, ty, data, ix)
    if isinstance(iterable, types.DictKeysIterableType):
        return key
    value = _value_of(context, builder, ty, d, ix)
    return context.make_tuple(builder, iterator_type.yield_type, [key, value])
