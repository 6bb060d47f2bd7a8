"""`ProjectTo` and `add_inplace` inside `@njit`.

Needs       the types of the primal and of its tangent: they determine everything but shapes
Gives       `ProjectTo(x)`, a value with the shapes of the arrays in x, and calls of it;
            `HeldProjection`, what that is in Python;
            `add_inplace`, `is_inplaceable_destination`
Invariants  J1  results have the type that the Python form gives, as determined by types alone

The Python form of `add_inplace` makes a new array if the sum does not fit the memory of `x`. This
one does so if the types say that it does not; other shapes raise `TangentMismatch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import signature
from numba.extending import (
    NativeValue,
    box,
    intrinsic,
    models,
    overload,
    register_jitable,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import as_dtype

from activerules.annotations.containers import like_tuple
from activerules.annotations.projection import ProjectTo
from activerules.annotations.tangents import NoTangent, NotImplementedTangent, One, ZeroTangent
from activerules.annotations.thunks import add_inplace, is_inplaceable_destination
from activerules.errors import TangentMismatch
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value
from activerules.numba_ext.codegen.types import (
    TangentType,
    attributes_of,
    is_zero_type,
    runtime_type,
    unboxed_struct,
)
from activerules.numba_ext.tangents.dataless import StructuralTangentType
from activerules.numba_ext.tangents.structural import call_python
from activerules.rules.written import function_from, item_by_item, tuple_of
from activerules.values.kinds import is_number, is_number_array, items_of
from activerules.values.layout import have_equal_names, layout_of

_ZERO = TangentType(ZeroTangent())


class ProjectionType(types.Callable):
    """The type of `ProjectTo(x)`: the type of x, and the type of the shapes it remembers."""

    def __init__(self, primal: Any, shapes: Any) -> None:
        self.primal = primal
        self.shapes = shapes
        self._keys: dict[tuple[types.Type, ...], Any] = {}
        super().__init__(f"ProjectTo({primal})")

    def get_call_type(self, context: TypingContext, args: Any, kws: Any) -> Any:
        """The signature of a call: that of `_project`, with the projection as first argument."""
        function = context.resolve_value_type(_project)
        typed = function.get_call_type(context, (self, *args), kws)
        if typed is None:
            return None
        self._keys[typed.args] = function.get_impl_key(typed)
        return signature(typed.return_type, *typed.args[1:], recvr=self)

    def get_call_signatures(self) -> Any:
        """No signature is known before a call."""
        return (), True

    def get_impl_key(self, sig: Any) -> Any:
        """The key under which the target context has the compiled call."""
        return self._keys[sig.args]


@register_model(ProjectionType)
class _ProjectionModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: ProjectionType) -> None:
        super().__init__(dmm, fe_type, [("shapes", fe_type.shapes)])


class HeldProjection(ProjectTo):
    """A `ProjectTo` that compiled code made, in Python: it goes back as what it was."""

    def __init__(self, primal: Any, shape_types: Any, shapes: Any) -> None:
        super().__init__(_zero(primal, shapes))
        self.type, self.shapes = ProjectionType(primal, shape_types), shapes


def _zero(ty: Any, shapes: Any) -> Any:
    """A zero of a type, whose arrays have these shapes; None where it has no tangent."""
    if isinstance(ty, types.BaseTuple):
        zeros = map(_zero, items_of(ty), shapes)
        return like_tuple(getattr(ty, "instance_class", tuple), zeros)
    if not (is_number(ty) or is_number_array(ty)):
        return None
    if isinstance(ty, types.Array):
        return np.broadcast_to(as_dtype(ty.dtype).type(), shapes)
    zero = as_dtype(ty).type()
    return zero.item() if ty in (types.float64, types.complex128) else zero


@typeof_impl.register(HeldProjection)
def _typeof(value: HeldProjection, c: Any) -> ProjectionType:
    return value.type


@box(ProjectionType)
def _box(ty: ProjectionType, value: Any, c: Any) -> Any:
    native = cgutils.create_struct_proxy(ty)(c.context, c.builder, value)
    shapes = c.box(ty.shapes, native.shapes)
    result = call_python(c, HeldProjection, ty.primal, ty.shapes, shapes)
    c.pyapi.decref(shapes)
    return result


@unbox(ProjectionType)
def _unbox(ty: ProjectionType, value: Any, c: Any) -> NativeValue:
    return unboxed_struct(c, ty, attributes_of(c, value, {"shapes": ty.shapes}))


@chosen_by_types
def _shapes(x):
    """The shapes of the arrays in `x`, in the structure of `x`."""
    if isinstance(x, types.Array):
        return lambda x: x.shape
    if isinstance(x, types.BaseTuple):
        items = tuple_of(f"shapes_of(x[{i}])" for i in range(len(x)))
        scope = {"shapes_of": _shapes}
        return function_from(f"def impl(x): return {items}", "impl", scope, module=__name__)
    return lambda x: None


@overload(ProjectTo)
def _projection(x):
    primal = runtime_type(x)

    @intrinsic
    def projection_of(typing_context, shapes):
        def codegen(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
            ty = sig.return_type
            native = cgutils.create_struct_proxy(ty)(context, builder)
            native.shapes = args[0]
            return impl_ret_borrowed(context, builder, ty, native._getvalue())

        return ProjectionType(primal, shapes)(shapes), codegen

    return lambda x: projection_of(_shapes(x))  # pyright: ignore[reportCallIssue]


@intrinsic
def _remembered(typing_context, projection):
    def codegen(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
        native = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
        return impl_ret_borrowed(context, builder, sig.return_type, native.shapes)

    return projection.shapes(projection), codegen


@chosen_by_types
def _project(projection, dx):
    """`projection(dx)`."""
    project = _projected(projection.primal, dx)
    return lambda projection, dx: project(_remembered(projection), dx)  # pyright: ignore[reportCallIssue]


# --- projections, by the types of primal and tangent ---


def _projected(primal: Any, dx: Any) -> Any:
    """A compiled `(shapes, dx) -> dx` in the tangent space of `primal`."""
    if isinstance(dx, TangentType) and isinstance(dx.value, NotImplementedTangent):
        return register_jitable(lambda shapes, dx: dx)
    if dx == types.none or not _has_tangent(primal):
        none = NoTangent()
        return register_jitable(lambda shapes, dx: none)
    if is_zero_type(dx):
        return register_jitable(lambda shapes, dx: dx)
    if isinstance(primal, types.BaseTuple):
        return _projected_tuple(primal, dx)
    if isinstance(primal, types.Array):
        return _projected_array(primal, dx)
    project = number_projection(primal, dx)
    if project is None:
        raise TypingError(f"{dx} is not a tangent of {primal}")
    return project


def number_projection(primal: Any, dx: Any) -> Any:
    """A compiled `(_, dx) -> dx` that gives a number, or `One`, the type of the number `primal`;
    None if `dx` is the type of something else.
    """
    convert = as_dtype(primal).type
    if isinstance(dx, TangentType) and isinstance(dx.value, One):
        one = convert(1)
        return register_jitable(lambda shapes, dx: one)
    if not isinstance(dx, types.Number):
        return None
    if isinstance(dx, types.Complex) and not isinstance(primal, types.Complex):
        return register_jitable(lambda shapes, dx: convert(dx.real))
    return register_jitable(lambda shapes, dx: convert(dx))


def _projected_array(primal: Any, dx: Any) -> Any:
    fits = isinstance(dx, types.Array) and dx.ndim == primal.ndim
    if not fits or not isinstance(dx.dtype, types.Number):
        raise TypingError(f"{dx} is not a tangent of {primal}")
    dtype = as_dtype(primal.dtype)
    is_real = isinstance(dx.dtype, types.Complex) and not isinstance(primal.dtype, types.Complex)
    message = "ProjectTo: the tangent does not have the shape of its primal"

    @register_jitable
    def shaped(shapes, dx):
        if dx.shape != shapes:
            raise TangentMismatch(message)
        return dx

    if is_real:
        return register_jitable(lambda shapes, dx: shaped(shapes, dx).real.astype(dtype))
    if dx.dtype == primal.dtype:
        return shaped
    return register_jitable(lambda shapes, dx: shaped(shapes, dx).astype(dtype))


def _projected_tuple(primal: Any, dx: Any) -> Any:
    parts = items_of(primal)
    if isinstance(dx, types.BaseTuple) and len(dx) == len(parts) and have_equal_names(primal, dx):
        entries = items_of(dx)
    elif isinstance(dx, StructuralTangentType) and len(dx.entries) == len(parts):
        entries = tuple(dx.fields.get(key, _ZERO) for key in dx.entries)
    else:
        raise TypingError(f"{dx} is not a tangent of {primal}")
    scope = {
        f"project{i}": _projected(part, entry)
        for i, (part, entry) in enumerate(zip(parts, entries, strict=True))
    }
    item = "project{i}(shapes[{i}], dx[{i}])"
    return register_jitable(item_by_item(primal, "shapes, dx", item, scope, module=__name__))


def _has_tangent(ty: Any) -> bool:
    if isinstance(ty, types.BaseTuple):
        return any([_has_tangent(item) for item in items_of(ty)])
    if is_number(ty) or is_number_array(ty):
        return True
    if layout_of(ty).activity != "const":
        raise TypingError(f"compiled code has no ProjectTo of {ty}: project its entries one by one")
    return False


# --- sums in place ---


@overload(is_inplaceable_destination)
def _is_inplaceable(x):
    answer = _can_hold_sums(x)
    return lambda x: answer


def _can_hold_sums(x: Any) -> bool:
    return is_number_array(x) and x.mutable


@overload(add_inplace)
def _add_inplace(x, y):
    if is_zero_type(y):
        return lambda x, y: x
    if _are_tuples(x, y):
        return _added_items(x)
    if not isinstance(x, types.Array) or not isinstance(y, types.Array | types.Number):
        return lambda x, y: x + y
    if x.ndim != getattr(y, "ndim", 0):
        raise TangentMismatch(f"add_inplace: {y} is added to {x}")
    if isinstance(y, types.Number):
        return lambda x, y: x + y
    return _added if _can_hold_sums(x) and _is_same_kind(y.dtype, x.dtype) else _sum


def _added(x, y):
    refuse_other_shape(x, y)
    for index in np.ndindex(x.shape):
        x[index] += y[index]
    return x


def _sum(x, y):
    refuse_other_shape(x, y)
    return x + y


@register_jitable
def refuse_other_shape(x: Any, y: Any) -> None:
    """Raise `TangentMismatch` unless two arrays have the same shape."""
    if x.shape != y.shape:
        raise TangentMismatch("add_inplace: the tangent has a different shape")


def _are_tuples(x: Any, y: Any) -> bool:
    both = isinstance(x, types.BaseTuple) and isinstance(y, types.BaseTuple)
    if both and len(x) != len(y):
        raise TangentMismatch("add_inplace: the tangent is a tuple of a different length")
    return both


def _added_items(x: Any) -> Any:
    """The sum of tuples, item by item."""
    if len(x) == 0:
        return lambda x, y: x
    make: Any = getattr(x, "instance_class", None)
    if make is not None:
        return lambda x, y: make(*add_inplace(x[0:], y[0:]))
    return lambda x, y: (add_inplace(x[0], y[0]), *add_inplace(x[1:], y[1:]))


def _is_same_kind(ty: Any, wanted: Any) -> bool:
    return isinstance(ty, types.Number) and np.can_cast(as_dtype(ty), as_dtype(wanted), "same_kind")
