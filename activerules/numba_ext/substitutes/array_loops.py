"""Loops over whole arrays for the AD target: sums, convolutions, `np.nditer` (by which Numba
computes means, variances, products and extremes), `np.ndindex` and `np.ndenumerate`.

The length of Numba's loops is unknown until they end, and the tape would have an index or two
pointers per item. Before 0.67, Numba sums by `np.nditer`; here a sum is a loop over the items, in
the same order. A convolution is a product of slices for each item of the result; Numba copies both
slices each time, here both arrays are copied once. An iterator over indices gives out an index,
finds the next one, and remembers whether there is one; here the next one is found when it is asked
for, from the innermost axis outwards, in the form in which `ir/normal/index_nests` knows it to be a
nest of loops.

Gives       implementations in `LOWERING`, an overload of what `np.convolve` and `np.correlate`
            call; `steps_otherwise`: values that must not be passed to code that Numba lowers
Invariants  W1  sums and convolutions are those of Numba, bit for bit
            W2  indices and items come in the order of Numba's, as many of them; after the last
                there are no more, however often one asks
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.registry import default_manager
from numba.core.imputils import RefType, iternext_impl
from numba.extending import overload, register_jitable
from numba.misc.special import pndindex
from numba.np import arraymath, arrayobj
from numba.np.numpy_support import as_dtype

from activerules.numba_ext.codegen.numba_versions import SUMS_BY_NDITER
from activerules.numba_ext.codegen.protocols import Builder, Value
from activerules.numba_ext.codegen.unoptimised import AD_TARGET, LOWERING

_INTP = cgutils.intp_t
_FLOATING = types.real_domain | types.complex_domain
_BEFORE, _ZERO, _ONE = (ir.Constant(_INTP, i) for i in (-1, 0, 1))
_ITERATORS = (types.NumpyNdIndexType, types.NumpyNdEnumerateType, types.NumpyNdIterType)


def steps_otherwise(typ: Any) -> bool:
    """Whether a value contains an iterator that this target and Numba's code step differently."""
    if not isinstance(typ, types.IteratorType | types.BaseTuple | types.Optional):
        return False
    inner = default_manager[typ].traverse_types()
    return any(isinstance(t, (*_ITERATORS, types.DictIteratorType)) for t in inner)


def _sum(context: Any, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    ty = sig.args[0]
    if not _is_in_one_row(ty):
        by_nditer: Any = arraymath.array_sum
        return by_nditer(context, builder, sig, args)
    zero, items_of = sig.return_type(0), _items_of(ty)

    def implementation(a):
        total, items = zero, items_of(a)
        for i in range(items.size):
            total += items[i]
        return total

    names = {"total": sig.return_type}
    return context.compile_internal(builder, implementation, sig, args, locals=names)


def _is_in_one_row(ty: Any) -> bool:
    """Whether the items of an array of numbers can be counted through without a copy."""
    return isinstance(ty.dtype, types.Number) and (
        ty.ndim == 1 or (ty.ndim > 1 and ty.layout in "CF")
    )


@register_jitable
def _same(a):
    return a


@register_jitable
def _items(a):
    return a.ravel()


@register_jitable
def _items_by_column(a):
    return a.T.ravel()


def _items_of(ty: Any) -> Any:
    """A function that makes a line of the items of such an array, in the order of Numba's."""
    if ty.ndim == 1:
        return _same
    return _items_by_column if ty.layout == "F" else _items


@overload(arraymath._np_correlate_core, target=AD_TARGET)
def _correlated(ap1, ap2, mode, direction):
    if not {ap1.dtype, ap2.dtype} <= _FLOATING:
        return None
    number = np.promote_types(as_dtype(ap1.dtype), as_dtype(ap2.dtype))

    def correlated(ap1, ap2, mode, direction):
        longer, shorter = ap1.astype(number), ap2.astype(number)
        n, m = len(longer), len(shorter)
        if mode == "valid":
            before, length = 0, n - m + 1
        elif mode == "full":
            before, length = m - 1, n + m - 1
        elif mode == "same":
            before, length = m // 2, n
        else:
            raise ValueError("Invalid 'mode', valid are 'full', 'same', 'valid'")
        result = np.zeros(length, number)
        for i in range(length):
            shift = i - before
            start, stop = max(0, shift), min(n, shift + m)
            place = i if direction == 1 else length - 1 - i
            result[place] = np.dot(longer[start:stop], shorter[start - shift : stop - shift])
        return result

    return correlated


def _countable(builder: Builder, shape: Sequence[Value]) -> list[Value]:
    """The lengths of axes, the first zero if an inner one is."""
    b: Any = builder
    empty: Any = cgutils.false_bit
    for length in shape[1:]:
        empty = b.or_(empty, b.icmp_unsigned("==", length, _ZERO))
    return [b.select(empty, _ZERO, shape[0]), *shape[1:]]


def _before_first(builder: Builder, shape: Sequence[Value], indices: Value) -> None:
    """Store what the first index follows: -1, and the last number of each inner axis."""
    b: Any = builder
    for k, length in enumerate(shape):
        start = b.add(length, _BEFORE) if k else _BEFORE
        b.store(start, cgutils.gep_inbounds(b, indices, k))


def _following(
    builder: Builder,
    shape: Sequence[Value],
    indices: Value,
    result: Any,
    item: Callable[[list[Value]], Value],
) -> None:
    """Return the index that follows the stored one, and store it; after the last index, that stays
    stored (W2).
    """
    b: Any = builder
    found, end = (b.append_basic_block(name) for name in ("found", "end"))
    places = [cgutils.gep_inbounds(b, indices, k) for k in range(len(shape))]
    for k in reversed(range(len(shape))):
        index = cgutils.increment_index(b, b.load(places[k]))
        with cgutils.if_likely(b, b.icmp_signed("<", index, shape[k])):
            b.store(index, places[k])
            for inner in places[k + 1 :]:
                b.store(_ZERO, inner)
            b.branch(found)
    result.set_valid(False)
    b.branch(end)
    b.position_at_end(found)
    values = [b.load(place) for place in places]
    for value in values:
        arrayobj.mark_positive(b, value)
    result.yield_(item(values))
    result.set_valid(True)
    b.branch(end)
    b.position_at_end(end)


def _ndindex(context: Any, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    ndim = sig.return_type.ndim
    implementation = arrayobj.make_array_ndindex
    given: Any = args
    kinds: Any = sig.args
    if kinds and isinstance(kinds[0], types.BaseTuple):
        implementation = arrayobj.make_array_ndindex_tuple
        given = cgutils.unpack_tuple(builder, args[0], ndim) if ndim else []
        kinds = [kinds[0].dtype] * ndim if ndim else []
    made = implementation(context, builder, sig, args)
    if not ndim:
        return made
    iterator = arrayobj.make_ndindex_cls(sig.return_type)(context, builder, value=made)
    # Numba gives out the first index before it looks at lengths: a negative one is like one of 1
    shape = [
        _one_if_negative(builder, context.cast(builder, n, kind, types.intp))
        for n, kind in zip(given, kinds, strict=True)
    ]
    shape = _countable(builder, shape)
    iterator.shape = cgutils.pack_array(builder, shape, _INTP)
    _before_first(builder, shape, iterator.indices)
    return iterator._getvalue()


def _one_if_negative(builder: Any, length: Value) -> Value:
    is_negative = builder.icmp_signed("<", length, _ZERO)
    return builder.select(is_negative, _ONE, length)


@LOWERING.lower("iternext", types.NumpyNdIndexType)
@iternext_impl(RefType.BORROWED)
def _next_of_ndindex(
    context: Any, builder: Any, sig: Any, args: Sequence[Value], result: Any
) -> None:
    [kind] = sig.args
    iterator = arrayobj.make_ndindex_cls(kind)(context, builder, value=args[0])
    if not kind.ndim:
        iterator.iternext_specific(context, builder, result)
        return
    shape = cgutils.unpack_tuple(builder, iterator.shape, kind.ndim)

    def index(values: list[Value]) -> Value:
        return cgutils.pack_array(builder, values, _INTP)

    _following(builder, shape, iterator.indices, result, index)


def _ndenumerate(context: Any, builder: Any, sig: Any, args: Sequence[Value]) -> Value:
    made = arrayobj.make_array_ndenumerate(context, builder, sig, args)
    kind = sig.return_type
    if kind.array_type.ndim:
        iterator = arrayobj.make_array_ndenumerate_cls(kind)(context, builder, value=made)
        array = context.make_array(kind.array_type)(context, builder, value=iterator.array)
        shape = cgutils.unpack_tuple(builder, array.shape, kind.array_type.ndim)
        _before_first(builder, shape, iterator.indices)
    return made


@LOWERING.lower("iternext", types.NumpyNdEnumerateType)
@iternext_impl(RefType.BORROWED)
def _next_of_ndenumerate(
    context: Any, builder: Any, sig: Any, args: Sequence[Value], result: Any
) -> None:
    [kind] = sig.args
    iterator = arrayobj.make_array_ndenumerate_cls(kind)(context, builder, value=args[0])
    array_type = kind.array_type
    array = context.make_array(array_type)(context, builder, value=iterator.array)
    if not array_type.ndim:
        iterator.iternext_specific(context, builder, array_type, array, result)
        return
    shape = _countable(builder, cgutils.unpack_tuple(builder, array.shape, array_type.ndim))

    def index_and_item(values: list[Value]) -> Value:
        at = cgutils.get_item_pointer(context, builder, array_type, array, values)
        item = arrayobj.load_item(context, builder, array_type, at)
        index = cgutils.pack_array(builder, values, _INTP)
        return cgutils.make_anonymous_struct(builder, [index, item])

    _following(builder, shape, iterator.indices, result, index_and_item)


def _axes(kind: Any) -> int:
    """How many indices an `np.nditer` counts by; 0 if it also counts something else."""
    if not kind.need_shaped_indexing:
        return 1
    return 0 if any(subiterator[0] == "flat" for subiterator in kind.indexers) else kind.ndim


def _nditer(context: Any, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    made = arrayobj.make_array_nditer(context, builder, sig, args)
    kind = sig.return_type
    if _axes(kind):
        iterator = arrayobj.make_nditer_cls(kind)(context, builder, value=made)
        shape = cgutils.unpack_tuple(builder, iterator.shape, _axes(kind))
        _before_first(builder, shape, iterator.indices)
    return made


@LOWERING.lower("iternext", types.NumpyNdIterType)
@iternext_impl(RefType.BORROWED)
def _next_of_nditer(
    context: Any, builder: Any, sig: Any, args: Sequence[Value], result: Any
) -> None:
    [kind] = sig.args
    iterator = arrayobj.make_nditer_cls(kind)(context, builder, value=args[0])
    if not _axes(kind):
        iterator.iternext_specific(context, builder, result)
        return
    shape = _countable(builder, cgutils.unpack_tuple(builder, iterator.shape, _axes(kind)))
    arrays = cgutils.unpack_tuple(builder, iterator.arrays)

    def items(values: list[Value]) -> Any:
        del values  # they are stored where Numba's code loads them
        given = iterator._arrays_or_scalars(context, builder, kind.arrays, arrays)
        views: Any = iterator._make_views(context, builder, iterator.indices, kind.arrays, given)
        found = [view._getvalue() for view in views]
        return found[0] if len(found) == 1 else context.make_tuple(builder, kind.yield_type, found)

    _following(builder, shape, iterator.indices, result, items)


LOWERING.lower(np.nditer, types.Any)(_nditer)
LOWERING.lower(np.ndenumerate, types.Array)(_ndenumerate)
for _kind in (types.VarArg(types.Integer), types.BaseTuple):
    for _name in (np.ndindex, pndindex):
        LOWERING.lower(_name, _kind)(_ndindex)
if SUMS_BY_NDITER:
    for _name in (np.sum, "array.sum"):
        LOWERING.lower(_name, types.Array)(_sum)
