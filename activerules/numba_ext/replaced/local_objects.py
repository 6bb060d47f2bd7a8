"""Copies of a caller's objects for the duration of a call, and their transfer back.

Needs       objects (jitclass instances, StructRefs), in tuples or not, in code of the AD target
Gives       intrinsics: `copy_objects`, `objects_in`, `arrays_in`, `require_apart`, `running`,
            `finish`
Invariants  C1  a copy holds what the object holds, with copies of the objects in its fields
            C2  `finish` leaves the objects as the function would have left them; the engine sees
                stores of floats and nothing else
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from activerules.errors import NotYetSupported, ShadowMismatch
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.llvm.types import DOUBLE
from activerules.numba_ext.calls.outline import return_error
from activerules.numba_ext.codegen.protocols import Builder, Emit, Value, doing, emitting
from activerules.values import object_runtime
from activerules.values.contents import parts_of
from activerules.values.extents import Extent, extent_of
from activerules.values.kinds import is_instance, is_number_array, items_of, leaves_of
from activerules.values.layout import Node, layout_of
from activerules.values.memory_layout import declared_of, fields_of, struct_type
from activerules.values.walk import Depth, new_object, walk

_I64 = ir.IntType(64)
_BYTES = cgutils.voidptr_t
_SHARED = (
    "an object in which arrays are replaced is reached by two paths",
    "each path has a shadow of its own, and both have the same final value",
    "pass an object of its own",
)
_OTHER_WAY = (
    "an array that is replaced in a Duplicated object is also reached by another path",
    "its shadow has the cotangents of both the array itself and the one that replaces it",
    "write into the array: self.field[:] = x",
)
_REPLACED = (
    "an object, list or array of records in a Duplicated argument is replaced by another",
    "its shadow would have to be replaced in the caller's shadow as well",
    "assign the fields of the object: self.part.a = x",
)


# --- types ---


def objects_of(ty: Any) -> Iterator[Any]:
    """The types of the objects in a value, including objects in their fields."""
    return filter(is_instance, _types_in(ty))


def arrays_of(ty: Any) -> Iterator[types.Array]:
    """The types of the arrays in a value, also in objects, in the order of `arrays_in`."""
    return (part for part in _types_in(ty) if isinstance(part, types.Array))


def _types_in(ty: Any) -> Iterator[Any]:
    """The types of what tuples and objects in a value lead to, in the order of `_values_in`."""
    for leaf in leaves_of(ty):
        yield leaf
        for field in fields_of(leaf) if is_instance(leaf) else ():
            yield from _types_in(field.numba_type)


# --- values ---


def _objects(em: Emit, ty: Any, value: Value) -> Iterator[tuple[Any, Any]]:
    """The objects in a value, each with its type, as borrowed references."""
    return (part for part in _values_in(em, ty, value) if is_instance(part[0]))


def arrays_in_value(em: Emit, ty: Any, value: Value) -> Iterator[tuple[Any, Any]]:
    """The arrays in a value, also in objects, each with its type, as borrowed references."""
    return (part for part in _values_in(em, ty, value) if isinstance(part[0], types.Array))


def _values_in(em: Emit, ty: Any, value: Value) -> Iterator[tuple[Any, Any]]:
    if isinstance(ty, types.BaseTuple):
        for item, (part,) in parts_of(em.builder, ty, value):
            yield from _values_in(em, item, part)
        return
    yield ty, value
    for field, part in _fields(em, ty, value) if is_instance(ty) else ():
        yield from _values_in(em, field, part)


def _fields(em: Emit, ty: Any, value: Value) -> Iterator[tuple[Any, Any]]:
    struct = _struct(em, ty, value)
    for k, field in enumerate(fields_of(ty)):
        yield field.numba_type, struct[k]


def _address(em: Emit, ty: Any, value: Value) -> Any:
    """The address of an object's memory; the object must not be unset."""
    reference = em.context.make_helper(em.builder, ty, value=value)
    if not isinstance(ty, types.StructRef):
        return reference.data
    data = em.context.nrt.meminfo_data(em.builder, reference.meminfo)
    return em.builder.bitcast(data, struct_type(ty).as_pointer())


def _identity(em: Emit, ty: Any, value: Value) -> Any:
    """A pointer that two references have in common if they lead to one object; null if unset."""
    reference = em.context.make_helper(em.builder, ty, value=value)
    return reference.meminfo if isinstance(ty, types.StructRef) else reference.data


def _struct(em: Emit, ty: Any, value: Value) -> Any:
    """Like `struct_of`, in a form in which the engine sees which memory it is."""
    pointer = _address(em, ty, value)
    payload = ty.get_data_type()
    if isinstance(ty, types.StructRef):
        return cgutils.create_struct_proxy(payload)(em.context, em.builder, ref=pointer)
    return em.context.make_data_helper(em.builder, payload, ref=pointer)


def _tuple_of(argtypes: Sequence[Any]) -> Any:
    return types.BaseTuple.from_types(tuple(argtypes))


def _packed(em: Emit, numba_type: Any, values: Sequence[Value]) -> Value:
    for ty, value in zip(items_of(numba_type), values, strict=True):
        em.context.nrt.incref(em.builder, ty, value)
    return em.context.make_tuple(em.builder, numba_type, values)


@intrinsic
def objects_in(typing_context, x):
    """The objects in a value, in order."""
    ty = _tuple_of([*objects_of(x)])

    def emit(em: Emit, args: Sequence[Value]) -> Any:
        return _packed(em, ty, [value for _, value in _objects(em, x, args[0])])

    return ty(x), emitting(emit)


def _arrays_where(chosen: Callable[[Any], bool]) -> Any:
    @intrinsic
    def arrays_in(typing_context, x):
        numba_type = _tuple_of([ty for ty in arrays_of(x) if chosen(ty)])

        def emit(em: Emit, args: Sequence[Value]) -> Any:
            values = [value for ty, value in arrays_in_value(em, x, args[0]) if chosen(ty)]
            return _packed(em, numba_type, values)

        return numba_type(x), emitting(emit)

    return arrays_in


arrays_in = _arrays_where(lambda ty: True)
"""The arrays in a value, those in objects too, in order."""
numbers_in = _arrays_where(is_number_array)
others_in = _arrays_where(lambda ty: not layout_of(ty).has_shadow)
"""Those of floats and complex numbers, and those without a shadow. (Arrays of records stay.)"""


# --- copies ---


@intrinsic
def copy_objects(typing_context, x):
    """The value with copies of all objects in it."""
    return x(x), emitting(lambda em, args: _copy(em, x, args[0]))


def _copy(em: Emit, numba_type: Any, value: Value) -> Any:
    if isinstance(numba_type, types.BaseTuple):
        items = [_copy(em, ty, part) for ty, (part,) in parts_of(em.builder, numba_type, value)]
        return em.context.make_tuple(em.builder, numba_type, items)
    if is_instance(numba_type):
        return _copy_of_instance(em, numba_type, value)
    em.context.nrt.incref(em.builder, numba_type, value)
    return value


def _copy_of_instance(em: Emit, numba_type: Any, value: Value) -> Any:
    result = new_object(em, numba_type)
    struct = _struct(em, numba_type, result)
    for k, (ty, part) in enumerate(_fields(em, numba_type, value)):
        struct[k] = _copy(em, ty, part)
    return result


@intrinsic
def require_apart(typing_context, x, others):
    """Raise if an object in `x` is reached along two paths, in `x` or in other arguments."""

    def emit(em: Emit, args: Sequence[Value]) -> None:
        builder = em.builder
        own = [*_objects_set_or_not(em, x, args[0])]
        elsewhere = [*_objects_set_or_not(em, others, args[1])]
        shared: Any = cgutils.false_bit
        unset: Any = cgutils.false_bit
        for k, (ty, value) in enumerate(own):
            address = _identity(em, ty, value)
            unset = builder.or_(unset, cgutils.is_null(builder, address))
            for other_type, other in own[k + 1 :] + elsewhere:
                if other_type == ty:
                    same = builder.icmp_unsigned("==", address, _identity(em, ty, other))
                    shared = builder.or_(shared, same)
        raise_if(em, shared, ShadowMismatch, _SHARED)
        raise_if(em, unset, NotYetSupported, _REPLACED)

    return types.none(x, others), doing(emit)


def raise_if(
    em: Emit,
    condition: Value,
    error: Any,
    texts: tuple[str, str, str],
    owned: Iterable[tuple[Any, Value]] = (),
) -> None:
    """Raise an error, after the values in `owned`, given with their types, are released."""
    what, why, instead = texts
    with cgutils.if_unlikely(em.builder, condition):
        for ty, value in owned:
            em.context.nrt.decref(em.builder, ty, value)
        em.context.call_conv.return_user_exc(em.builder, error, (what, (), why, (instead,)))


def _objects_set_or_not(em: Emit, numba_type: Any, value: Value) -> Iterator[tuple[Any, Any]]:
    """Like `_objects`; a field without an object is visited, too."""
    for visit in walk(em, layout_of(numba_type), (value,), depth=Depth.FIELDS, where=_has_objects):
        if is_instance(visit.node.numba_type):
            yield visit.node.numba_type, visit.values[0]


def _has_objects(node: Node) -> bool:
    return next(objects_of(node.numba_type), None) is not None


# --- the call, and its end ---


def running(
    dispatcher: Any, argtypes: Sequence[Any], finish_all: Callable[..., Any] | None = None
) -> Any:
    """The intrinsic `run(arguments, originals, copies, objects, owned)`: a call of a function.

    If it raises, the objects become what their copies are, and the references that are owned are
    released: those of the arguments and of the caller's variables, which `owned` lists.
    """

    @intrinsic
    def run(typing_context, arguments, originals, copies, objects, owned):
        callee_type = typing_context.resolve_value_type(dispatcher)
        called = callee_type.get_call_type(typing_context, tuple(argtypes), {})
        _require_plain(called.return_type)
        argument_types = (arguments, originals, copies, objects, owned)

        def emit(em: Emit, args: Sequence[Value]) -> Any:
            context, builder = em.context, em.builder
            compiled = callee_type.dispatcher.overloads[called.args]
            context.add_linking_libs([compiled.library])
            values = cgutils.unpack_tuple(builder, args[0], len(argtypes))
            passed = _passed(em, values, argtypes, called.args)
            status, result = context.call_internal_no_propagate(
                builder, compiled.fndesc, called, passed
            )
            with cgutils.if_unlikely(builder, status.is_error):
                (finish_all or _finish_objects)(em, originals, *args[1:4])
                for ty, value in zip((*argument_types, owned), (*args, args[4]), strict=True):
                    context.nrt.decref(builder, ty, value)
                return_error(context, builder, status)
            return result

        return called.return_type(*argument_types), emitting(emit)

    return run


def _passed(em: Emit, values: Sequence[Any], given: Any, taken: Any) -> list[Value]:
    """The arguments of a call as the function takes them: those of `*args` in a tuple."""
    if taken and isinstance(taken[-1], types.StarArgTuple | types.StarArgUniTuple):
        count = len(taken) - 1
        rest = _passed(em, values[count:], given[count:], items_of(taken[-1]))
        passed = _passed(em, values[:count], given[:count], taken[:count])
        return [*passed, em.context.make_tuple(em.builder, taken[-1], rest)]
    typed = zip(values, given, taken, strict=True)
    return [em.context.cast(em.builder, value, *pair) for value, *pair in typed]


def _require_plain(returned: Any) -> None:
    """Refuse results that may contain one of the objects: the caller would get its copy."""
    if layout_of(returned).is_container:
        raise NotYetSupported(
            "a function that replaces arrays in a Duplicated object returns an object or list",
            why="it may return the object, which is replaced by a copy while it runs",
            instead=["return the arrays in it"],
        )


@intrinsic
def require_transferable(typing_context, lost, shared, before, after, others, objects, result):
    """Release everything and raise if the call has no derivative: an object was replaced, or a
    replaced array is also reachable by another path, which is `shared` if one of items is.

    Released are `objects`, a tuple of what the caller no longer needs, and `result`, a variable.
    """
    argtypes = (lost, shared, before, after, others, objects, result)

    def emit(em: Emit, args: Sequence[Value]) -> None:
        builder = em.builder
        first, last, reached = (
            [ArrayMemory(em, *array) for array in arrays_in_value(em, ty, value)]
            for ty, value in zip((before, after, others), args[2:5], strict=True)
        )
        meet = cgutils.as_bool_bit(builder, args[1])
        for k, (then, now) in enumerate(zip(first, last, strict=True)):
            near: Any = cgutils.false_bit
            for other in first[:k] + first[k + 1 :] + reached:
                near = builder.or_(near, then.extent.meets(other.extent, builder))
            meet = builder.or_(meet, builder.and_(near, then.differs(now)))
        for condition, refusal in ((args[0], _REPLACED), (meet, _OTHER_WAY)):
            owned = zip(argtypes, args, strict=True)
            raise_if(em, condition, NotYetSupported, refusal, owned)

    return types.none(*argtypes), doing(emit)


class ArrayMemory:
    """An array: the address of its data, its shape and strides; its extent."""

    def __init__(self, em: Emit, ty: Any, value: Value) -> None:
        self.builder, self.ty = em.builder, ty
        self.array = em.array(ty, value)
        self.sides = [
            side
            for packed in (self.array.shape, self.array.strides)
            for side in cgutils.unpack_tuple(em.builder, packed, ty.ndim)
        ]

    @cached_property
    def extent(self) -> Extent:
        """The bytes that it may touch."""
        return extent_of(self.builder, self.ty, self.array)

    def differs(self, other: ArrayMemory) -> Any:
        """Whether another array of the same type differs in its memory, shape or strides."""
        different = _differ(self.builder, self.array.data, other.array.data)
        for own, its in zip(self.sides, other.sides, strict=True):
            different = self.builder.or_(different, _differ(self.builder, own, its))
        return different


@intrinsic
def finish(typing_context, originals, copies, objects):
    """Give the objects the contents of their copies; `objects` are those in the copies when they
    were made.

    True if that cannot be differentiated, because an object was replaced by another.
    """

    def emit(em: Emit, args: Sequence[Value]) -> Any:
        _store_floats(em, originals, args[0], args[2])
        return _finish_objects(em, originals, *args)

    return types.boolean(originals, copies, objects), emitting(emit)


def _pairs(
    em: Emit, numba_type: Any, originals: Any, objects: Any
) -> Iterator[tuple[Any, Any, Any]]:
    """Each object in the arguments with its type and its copy."""
    own = _objects(em, numba_type, originals)
    copies = cgutils.unpack_tuple(em.builder, objects, len([*objects_of(numba_type)]))
    for (ty, original), copy in zip([*own], copies, strict=True):
        yield ty, original, copy


def _store_floats(em: Emit, numba_type: Any, originals: Any, objects: Any) -> None:
    for ty, original, copy in _pairs(em, numba_type, originals, objects):
        declared = declared_of(ty)
        assert declared is not None
        copy_floats(em.builder, declared, *(_address(em, ty, x) for x in (original, copy)))


def copy_floats(builder: Builder, declared: Declared, target: Any, source: Any) -> None:
    """Copy the floats of memory of this layout, so that the engine sees that they are floats."""
    target, source = (builder.bitcast(address, _BYTES) for address in (target, source))
    for offset, kind in declared.floats:
        llvm = (ir.DoubleType() if kind == DOUBLE else ir.FloatType()).as_pointer()
        to, at = (
            builder.bitcast(cgutils.pointer_add(builder, address, _I64(offset)), llvm)
            for address in (target, source)
        )
        builder.store(builder.load(at), to)


def _finish_objects(em: Emit, numba_type: Any, originals: Any, copies: Any, objects: Any) -> Any:
    """Transfer the fields by code that the engine does not see. True if an object, list or array of
    records was replaced: then the last reference to the former one may be in its field.
    """
    replaced: Any = cgutils.false_bit
    pairs = [*_pairs(em, numba_type, originals, objects)]
    for ty, original, _ in pairs:
        _count(em, "keep", ty, original)
    for ty, original, copy in pairs:
        before, after = (_struct(em, ty, value) for value in (original, copy))
        for k, field in enumerate(fields_of(ty)):
            target, source = before._get_ptr_by_index(k), after._get_ptr_by_index(k)
            changed = _finish_field(em, field.numba_type, target, source, pairs)
            replaced = em.builder.or_(replaced, changed)
    for ty, original, _ in pairs:
        _count(em, "leave", ty, original)
    return replaced


def _finish_field(em: Emit, ty: Any, target: Any, source: Any, pairs: Sequence[Any]) -> Any:
    context, builder = em.context, em.builder
    if isinstance(ty, types.BaseTuple):
        replaced: Any = cgutils.false_bit
        for k, item in enumerate(items_of(ty)):
            to, at = (cgutils.gep_inbounds(builder, address, 0, k) for address in (target, source))
            replaced = builder.or_(replaced, _finish_field(em, item, to, at, pairs))
        return replaced
    model = context.data_model_manager[ty]
    old, new = (model.load_from_data_pointer(builder, address) for address in (target, source))
    if is_instance(ty):
        return _finish_reference(em, ty, (target, old), (source, new), pairs)
    _write(em, ty, (target, old), (source, new))
    if isinstance(ty, types.Array):
        if not isinstance(ty.dtype, types.Record):
            return cgutils.false_bit
        arrays = (em.array(ty, value) for value in (old, new))
        return _differ(builder, *(array.data for array in arrays))
    if not layout_of(ty).is_container:
        return cgutils.false_bit
    counted = (context.nrt.get_meminfos(builder, ty, value) for value in (old, new))
    replaced = cgutils.false_bit
    for (_, first), (_, second) in zip(*counted, strict=True):
        replaced = builder.or_(replaced, _differ(builder, first, second))
    return replaced


def _finish_reference(
    em: Emit, numba_type: Any, old: tuple[Any, Any], new: tuple[Any, Any], pairs: Sequence[Any]
) -> Value:
    """Transfer a field that refers to an object, unless it refers to the object's copy."""
    builder = em.builder
    original, now = (_address(em, numba_type, value) for _, value in (old, new))
    stays: Any = cgutils.false_bit
    for ty, first, copy in pairs:
        if ty == numba_type:
            own = builder.icmp_unsigned("==", original, _address(em, ty, first))
            same = builder.icmp_unsigned("==", now, _address(em, ty, copy))
            stays = builder.or_(stays, builder.and_(own, same))
    with cgutils.if_unlikely(builder, builder.not_(stays)):
        _write(em, numba_type, old, new)
    return builder.not_(stays)


def _differ(builder: Builder, first: Value, second: Value) -> Value:
    return builder.icmp_unsigned("!=", first, second)


def _write(em: Emit, ty: Any, old: tuple[Any, Any], new: tuple[Any, Any]) -> None:
    (target, before), (source, after) = old, new
    _count(em, "keep", ty, after)
    size = em.context.get_abi_sizeof(target.type.pointee)
    target, source = (em.builder.bitcast(address, _BYTES) for address in (target, source))
    object_runtime.call(em.builder, "write", target, source, _I64(size))
    _count(em, "leave", ty, before)


def _count(em: Emit, change: str, ty: Any, value: Value) -> None:
    """Count one reference more ("keep") or less ("leave")."""
    for _, meminfo in em.context.nrt.get_meminfos(em.builder, ty, value):
        object_runtime.call(em.builder, change, em.builder.bitcast(meminfo, _BYTES))
