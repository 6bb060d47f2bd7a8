"""Broadcasting for the AD target: the shapes of array expressions, and `np.broadcast_shapes`.

Numba finds the shape of an array expression by a loop over the axes of each operand, which keeps
the shape in memory. Here the steps follow one another, so lengths that are constants, as those of a
field of a record, stay constants.

Gives       `BroadcastsByAxis`, a part of the target's context; an overload
Invariants  B1  shapes are broadcast, or refused, as in Numba
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.cpu import CPUContext
from numba.extending import intrinsic, overload
from numba.np import npyimpl

from activerules.numba_ext.codegen.protocols import Value
from activerules.numba_ext.codegen.unoptimised import AD_TARGET

_INTP = cgutils.intp_t
_ZERO, _ONE = _INTP(0), _INTP(1)
_NEGATIVE = "negative dimensions are not allowed"
_APART = "shape mismatch: objects cannot be broadcast to a single shape"
"""Numba's words."""


class BroadcastsByAxis(CPUContext):
    """A target context that finds the shape of an array expression axis by axis, without a loop."""

    def compile_internal(
        self, builder: Any, impl: Any, sig: Any, args: Sequence[Any], locals: Any = None
    ) -> Any:
        """The call of a function that Numba compiles for it."""
        if impl is npyimpl._broadcast_onto:
            return _broadcast_onto(builder, *args)
        return super().compile_internal(builder, impl, sig, args, locals)


def _broadcast_onto(builder: Any, source_axes: Any, source: Value, axes: Any, shape: Value) -> Any:
    """Store the lengths of an operand in a shape that has ones where no operand before it had more.

    The numbers of axes are constants. Returns the number of axes of the shape, or minus that of the
    first axis, counted from one, where lengths differ.
    """
    first, result = axes.constant - source_axes.constant, axes
    for k in reversed(range(source_axes.constant)):
        place = cgutils.gep_inbounds(builder, shape, first + k)
        length = builder.load(cgutils.gep_inbounds(builder, source, k))
        joined, agrees = _joined(builder, builder.load(place), length)
        builder.store(joined, place)
        result = builder.select(agrees, result, _INTP(-(first + k + 1)))
    return result


def _joined(builder: Any, known: Value, length: Value) -> tuple[Value, Value]:
    """The length of an axis that operands have so far, with that of one more; and whether the two
    agree.
    """
    is_free = builder.icmp_signed("==", known, _ONE)
    is_repeated = builder.icmp_signed("==", length, _ONE)
    is_equal = builder.icmp_signed("==", known, length)
    agrees = builder.or_(is_free, builder.or_(is_repeated, is_equal))
    return builder.select(is_free, length, known), agrees


@overload(np.broadcast_shapes, target=AD_TARGET)
def _broadcast_shapes(*args):
    if not all(map(_is_shape, args)):
        return None  # Numba's own says what is wrong

    def joined(*args):
        return _joined_shapes(args)  # pyright: ignore[reportCallIssue]

    return joined


def _is_shape(ty: Any) -> bool:
    if not isinstance(ty, types.BaseTuple):
        return types.unliteral(ty) == types.intp  # Numba passes over other integers
    is_uniform = isinstance(ty, types.UniTuple) or ty == types.Tuple(())
    return is_uniform and all(isinstance(length, types.Integer) for length in _lengths(ty))


def _lengths(ty: Any) -> tuple[Any, ...]:
    return tuple(ty) if isinstance(ty, types.Tuple | types.UniTuple) else (ty,)


@intrinsic
def _joined_shapes(typing_context, shapes):
    """The shape to which shapes are broadcast; raises ValueError if there is none."""
    rows = [_lengths(ty) for ty in shapes]
    axes = max(map(len, rows), default=0)

    def codegen(context: Any, builder: Any, sig: Any, args: Sequence[Value]) -> Value:
        shape: list[Any] = [_ONE] * axes
        negative: Any = cgutils.false_bit
        apart: Any = cgutils.false_bit
        given = cgutils.unpack_tuple(builder, args[0], len(rows))
        for ty, row, value in zip(shapes, rows, given, strict=True):
            is_tuple = isinstance(ty, types.BaseTuple)
            values = cgutils.unpack_tuple(builder, value, len(row)) if is_tuple else [value]
            for k, length in enumerate(values, axes - len(row)):
                length = context.cast(builder, length, row[0], types.intp)
                negative = builder.or_(negative, builder.icmp_signed("<", length, _ZERO))
                shape[k], agrees = _joined(builder, shape[k], length)
                apart = builder.or_(apart, builder.not_(agrees))
        for failed, words in ((negative, _NEGATIVE), (apart, _APART)):
            with cgutils.if_unlikely(builder, failed):
                context.call_conv.return_user_exc(builder, ValueError, (words,))
        return cgutils.pack_array(builder, shape, _INTP)

    return types.UniTuple(types.intp, axes)(shapes), codegen
