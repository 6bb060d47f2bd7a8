"""ZeroTangent, NoTangent, One and NotImplementedTangent inside `@njit`.

They are described by their types alone, so that computing with them leaves no code: `x + zero` is
`x`, `one * x` is `x`. The message of NotImplementedTangent must be a literal.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import (
    box,
    lower_builtin,
    overload,
    overload_attribute,
    overload_method,
    type_callable,
    typeof_impl,
)

from activerules.annotations.structural import names_of
from activerules.annotations.tangents import (
    AbstractTangent,
    NoTangent,
    NotImplementedTangent,
    One,
    ZeroTangent,
    conjugate,
    is_zero,
)
from activerules.annotations.thunks import extern, unthunk
from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.codegen.stubs import carries_no_data
from activerules.numba_ext.codegen.types import TangentType, is_zero_type

_ZERO, _NONE, _ONE = (TangentType(value()) for value in (ZeroTangent, NoTangent, One))
carries_no_data(TangentType)


class StructuralTangentType(types.Type):
    """The type of a `Tangent[P]`: the class P, and the types of the given fields, in the order of P
    if it has one.
    """

    def __init__(self, primal: Any, fields: tuple[tuple[Any, types.Type], ...]) -> None:
        self.primal = primal
        self.fields: dict[Any, Any] = dict(fields)
        names = ", ".join(f"{key}={ty}" for key, ty in fields)
        super().__init__(f"Tangent[{primal.__name__}]({names})")

    @property
    def key(self) -> Any:
        """The key by which Numba compares types."""
        return self.primal, tuple(self.fields.items())

    @property
    def entries(self) -> tuple[Any, ...]:
        """The names of all entries of P, in order; those of the given fields if P has none."""
        return names_of(self.primal) or tuple(self.fields)


def refuse_type(ty: Any) -> None:
    """Raise `TangentNotImplemented` if a type is that of a `NotImplementedTangent`."""
    if isinstance(ty, TangentType) and isinstance(ty.value, NotImplementedTangent):
        ty.value.refuse()


@typeof_impl.register(ZeroTangent)
@typeof_impl.register(NoTangent)
@typeof_impl.register(One)
@typeof_impl.register(NotImplementedTangent)
def _typeof(value: AbstractTangent, c: Any) -> TangentType:
    return TangentType(value)


@box(TangentType)
def _box(ty: TangentType, value: Any, c: Any) -> Any:
    return c.pyapi.unserialize(c.pyapi.serialize_object(ty.value))


def _register_constructor(kind: type) -> None:
    @type_callable(kind)
    def _type(context: Any) -> Any:
        return lambda: TangentType(kind())

    @lower_builtin(kind)
    def _construct(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
        return context.get_dummy_value()


for _kind in (ZeroTangent, NoTangent, One):
    _register_constructor(_kind)


@type_callable(NotImplementedTangent)
def _type_not_implemented(context: Any) -> Any:
    def typer(info: Any = None) -> Any:
        if info is None:
            return TangentType(NotImplementedTangent())
        # Numba first asks with the type of any string, then again with the literal.
        is_literal = isinstance(info, types.StringLiteral)
        return TangentType(NotImplementedTangent(info.literal_value)) if is_literal else None

    return typer


@lower_builtin(NotImplementedTangent)
@lower_builtin(NotImplementedTangent, types.Any)
def _construct_not_implemented(
    context: Context, builder: Builder, sig: Any, args: Sequence[Value]
) -> Any:
    return ir.Constant(context.get_value_type(sig.return_type), None)


# --- algebra, as of the Python classes, on types ---


def _sum(x: Any, y: Any) -> Any:
    """Return the implementation of `x + y` where one of the two has no data."""
    if not isinstance(x, TangentType):
        x, y, swapped = y, x, True
    else:
        swapped = False
    if isinstance(y, TangentType):
        total = x.value + y.value
        return lambda x, y: total
    if is_zero(x.value):
        return (lambda x, y: x) if swapped else (lambda x, y: y)
    refuse_type(x)
    return (lambda x, y: x + 1.0) if swapped else (lambda x, y: 1.0 + y)


def _difference(x: Any, y: Any) -> Any:
    if isinstance(x, TangentType) and isinstance(y, TangentType):
        total = x.value - y.value
        return lambda x, y: total
    if isinstance(y, TangentType):
        refuse_type(y)
        return (lambda x, y: x) if is_zero(y.value) else (lambda x, y: x - 1.0)
    refuse_type(x)
    return (lambda x, y: -y) if is_zero(x.value) else (lambda x, y: 1.0 - y)


def _product(x: Any, y: Any) -> Any:
    if isinstance(x, TangentType) and isinstance(y, TangentType):
        product = x.value * y.value
        return lambda x, y: product
    tangent, first = (x, True) if isinstance(x, TangentType) else (y, False)
    refuse_type(tangent)
    if is_zero(tangent.value):
        return (lambda x, y: x) if first else (lambda x, y: y)
    return (lambda x, y: y) if first else (lambda x, y: x)


def _quotient(x: Any, y: Any) -> Any:
    if isinstance(x, TangentType) and isinstance(y, TangentType):
        quotient = x.value / y.value
        return lambda x, y: quotient
    if isinstance(x, TangentType):
        refuse_type(x)
        return (lambda x, y: x) if is_zero(x.value) else (lambda x, y: 1.0 / y)
    refuse_type(y)
    return None if is_zero(y.value) else (lambda x, y: x)


_ALGEBRA = {
    operator.add: _sum,
    operator.iadd: _sum,
    operator.sub: _difference,
    operator.isub: _difference,
    operator.mul: _product,
    operator.imul: _product,
    operator.matmul: _product,
    operator.truediv: _quotient,
    operator.itruediv: _quotient,
}


def _register_operator(function: Any, implementation: Any) -> None:
    @overload(function)
    def _binary(x, y):
        if isinstance(x, TangentType) or isinstance(y, TangentType):
            return implementation(x, y)
        return None


for _function, _implementation in _ALGEBRA.items():
    _register_operator(_function, _implementation)


@overload(operator.neg)
def _neg(x):
    if isinstance(x, TangentType):
        negated = -x.value
        return lambda x: negated
    return None


@overload(operator.pos)
def _pos(x):
    return (lambda x: x) if isinstance(x, TangentType) else None


@overload(operator.getitem)
def _getitem(x, index):
    if isinstance(x, TangentType) and is_zero(x.value):
        return lambda x, index: x
    return None


@overload(bool)
def _bool(x):
    if isinstance(x, TangentType):
        return (lambda x: False) if is_zero(x.value) else (lambda x: True)
    return None


@overload(float)
def _float(x):
    if isinstance(x, TangentType):
        refuse_type(x)
        number = float(x.value)
        return lambda x: number
    return None


@overload_method(TangentType, "conjugate")
@overload_attribute(TangentType, "real")
def _same(x):
    return lambda x: x


# --- functions of tangents ---


@overload(np.sum)
def _sum_of(a):
    return (lambda a: a) if is_zero_type(a) and a != types.none else None


@overload(np.dot)
@overload(np.vdot)
@overload(np.outer)
def _product_of(a, b):
    for ty in (a, b):
        if isinstance(ty, TangentType) and is_zero(ty.value):
            zero = ty.value
            return lambda a, b: zero
    return None


@overload(conjugate)
def _conjugate(tangent):
    if isinstance(tangent, StructuralTangentType):
        return lambda tangent: tangent.conjugate()
    if isinstance(tangent, types.Complex):
        return lambda tangent: tangent.conjugate()
    if isinstance(tangent, types.Array) and isinstance(tangent.dtype, types.Complex):
        return lambda tangent: tangent.conj()
    return lambda tangent: tangent


@overload(is_zero)
def _is_zero(tangent):
    answer = is_zero_type(tangent)
    return lambda tangent: answer


@overload(unthunk)
@overload(extern)
def _nothing_to_compute(x):
    return lambda x: x
