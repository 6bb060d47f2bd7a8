"""New shadows: values of zeros like another value, in the IR of the caller.

Gives       `zero_shadow`: a new shadow of zeros, arrays with the shape and strides of their primals
            `own_constants`: what is constant in it belongs to it, too
            `new_instance`: an instance like another one
            `room_like`: memory for an array like another one
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.experimental.jitclass.base import imp_dtor
from numba.extending import intrinsic

from activerules.numba_ext.extents import extent_of
from activerules.numba_ext.fields import (
    fields_of,
    is_collection,
    is_instance,
    is_list_of_numbers,
    struct_type,
)
from activerules.numba_ext.kinds import has_shadow, is_number, is_shadowed_array, shadow_type
from activerules.numba_ext.pieces import field_values, parts_of, struct_of


def zero_shadow(context: Any, builder: Any, found: Any, primal: Any) -> Any:
    """Emit a new shadow of zeros, arrays with the shape and strides of `primal`; the caller owns
    them. What is constant is that of `primal`, borrowed; an instance owns what is in it.
    """
    if isinstance(found, types.BaseTuple):
        parts = parts_of(builder, found, primal)
        items = [zero_shadow(context, builder, item, part) for item, (part,) in parts]
        return context.make_tuple(builder, shadow_type(found), items)
    if is_shadowed_array(found):
        return _zero_array(context, builder, found, primal)
    if is_instance(found) and has_shadow(found):
        return new_instance(context, builder, found, primal, _owned_zero)
    if is_collection(found):
        return _zero_collection(context, builder, found, primal)
    return context.get_constant_null(found) if is_number(found) else primal


def own_constants(context: Any, builder: Any, found: Any, shadow: Any) -> None:
    """Make what is constant in a new shadow, and borrowed, belong to it as the rest does."""
    if isinstance(found, types.BaseTuple):
        for item, (part,) in parts_of(builder, found, shadow):
            own_constants(context, builder, item, part)
    elif not has_shadow(found):
        context.nrt.incref(builder, found, shadow)


def _zero_collection(context: Any, builder: Any, found: Any, primal: Any) -> Any:
    zero: Callable[[Any], Any] = _zero_dict if isinstance(found, types.DictType) else _zero_items
    if is_list_of_numbers(found):
        zero = _zero_list
    result = cgutils.alloca_once_value(builder, context.get_constant_null(found))
    data = context.make_helper(builder, found, value=primal).data
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, data)):  # a field that is set
        made = context.compile_internal(builder, zero, signature(found, found), [primal])
        builder.store(made, result)
    return builder.load(result)


def _zero_list(x):
    zero = x.copy()
    for k in range(len(x)):
        zero[k] = 0.0
    return zero


def _zero_items(x):
    zero = x.copy()
    for k in range(len(x)):
        zero[k] = _zero_item(x[k])  # pyright: ignore[reportCallIssue]
    return zero


@intrinsic
def _zero_item(typing_context, x):
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _owned_zero(context, builder, x, args[0])

    return x(x), codegen


def _zero_dict(x):
    zero = x.copy()
    for key, value in x.items():
        zero[key] = _zero_item(value)  # pyright: ignore[reportCallIssue]
    return zero


def new_instance(
    context: Any, builder: Any, found: Any, primal: Any, part: Callable[..., Any]
) -> Any:
    """A new instance, with what `part` gives for each field of another one, owned."""
    memory_type = struct_type(found)
    size = context.get_constant(types.uintp, context.get_abi_sizeof(memory_type))
    destructor = imp_dtor(context, builder.module, found)
    meminfo = context.nrt.meminfo_alloc_dtor(builder, size, destructor)
    data = context.nrt.meminfo_data(builder, meminfo)
    data = builder.bitcast(data, memory_type.as_pointer())
    builder.store(cgutils.get_null_value(memory_type), data)
    reference = context.make_helper(builder, found)
    reference.meminfo = meminfo
    if not isinstance(found, types.StructRef):
        reference.data = data
    result = reference._getvalue()
    struct = struct_of(context, builder, found, result)
    values = field_values(context, builder, found, primal)
    for k, (field, value) in enumerate(zip(fields_of(found), values, strict=True)):
        struct[k] = part(context, builder, field.numba_type, value)
    return result


def _owned_zero(context: Any, builder: Any, found: Any, primal: Any) -> Any:
    """As `zero_shadow`, with a reference to what is constant, too."""
    zero = zero_shadow(context, builder, found, primal)
    own_constants(context, builder, found, zero)
    return zero


def _zero_array(context: Any, builder: Any, array_type: Any, primal: Any) -> Any:
    shadow, base, size = _room_like(context, builder, array_type, primal)
    cgutils.memset(builder, base, size, 0)
    return shadow


def _room_like(context: Any, builder: Any, array_type: Any, array: Any) -> tuple[Any, Any, Any]:
    """A new array of the shape and strides of another, where its memory begins, and its size."""
    primal = context.make_array(array_type)(context, builder, array)
    extent = extent_of(builder, array_type, primal)
    size = builder.sub(extent.high, extent.low)
    alignment = context.get_preferred_array_alignment(array_type.dtype)
    meminfo = context.nrt.meminfo_alloc_aligned(builder, size, cgutils.int32_t(alignment))
    base = context.nrt.meminfo_data(builder, meminfo)
    below = builder.sub(extent.data, extent.low)
    room = context.make_array(shadow_type(array_type))(context, builder, array)
    data = cgutils.pointer_add(builder, base, below)
    room.data = builder.bitcast(data, primal.data.type)
    room.meminfo = meminfo
    room.parent = cgutils.get_null_value(primal.parent.type)
    return room._getvalue(), base, size


@intrinsic
def room_like(typing_context, x):
    """A new array of the shape and strides of `x`, with nothing written into it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _room_like(context, builder, x, args[0])[0]

    return shadow_type(x)(x), codegen
