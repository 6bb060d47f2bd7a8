"""`Tangent[P]` inside `@njit`: fields, sums, multiples, and `p + t` for a primal p.

Needs       field names that are spelled out: a tangent is a struct of the fields given
Gives       the compiled forms of `Tangent[P](…)`, `t.x`, `t[0]`, `t + t`, `p + t`, `c * t`,
            `len`, `tuple`, loops, `canonicalize`; boxing and unboxing
Invariants  X1  a field that was not given is `ZeroTangent()`, a type: adding it leaves no code
            X2  tuples in fields add entry by entry, as in Python

`Tangent[P]` can be written inside `@njit` for named tuples, `tuple` and `dict`. For a jitclass it
is made outside (`SpringTangent = Tangent[Spring]`), as Numba does not know the class by its name.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer,
    infer_getattr,
    signature,
)
from numba.extending import (
    NativeValue,
    box,
    lower_builtin,
    lower_getattr_generic,
    models,
    overload,
    overload_method,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)

from activerules.annotations import structural
from activerules.annotations.structural import (
    Key,
    Tangent,
    TangentOf,
    canonicalize,
    names_of,
    over,
    plus,
    times,
)
from activerules.annotations.tangents import ZeroTangent, conjugate
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value
from activerules.numba_ext.codegen.stubs import carries_no_data
from activerules.numba_ext.codegen.types import TangentType, runtime_type, unboxed_struct
from activerules.numba_ext.tangents.dataless import StructuralTangentType
from activerules.rules.written import function_from, item_by_item, tuple_of

_ZERO = TangentType(ZeroTangent())


# --- the struct, to and from Python ---


@register_model(StructuralTangentType)
class _TangentModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: StructuralTangentType) -> None:
        members = [(f"field{i}", ty) for i, ty in enumerate(fe_type.fields.values())]
        super().__init__(dmm, fe_type, members)


def _struct(primal: Any, fields: dict[Key, types.Type]) -> StructuralTangentType:
    names = names_of(primal) or tuple(fields)
    return StructuralTangentType(
        primal, tuple((name, fields[name]) for name in names if name in fields)
    )


@typeof_impl.register(Tangent)
def _typeof(value: Tangent, c: Any) -> StructuralTangentType | None:
    fields: dict[Any, Any] = {k: typeof_impl(field, c) for k, field in value.backing.items()}
    return None if None in fields.values() else _struct(value.primal, fields)


def _values(tangent: Tangent, keys: Iterable[Key]) -> tuple[Any, ...]:
    return tuple(tangent.backing[key] for key in keys)


def _rebuilt(primal: Any, keys: tuple[Key, ...], *values: Any) -> Tangent:
    return structural.tangent_of(primal, dict(zip(keys, values, strict=True)))


def call_python(c: Any, function: Any, *args: Any) -> Any:
    """Call a Python function; arguments that are no LLVM values are constants."""
    objects = [
        a if hasattr(a, "type") else c.pyapi.unserialize(c.pyapi.serialize_object(a))
        for a in (function, *args)
    ]
    result = c.pyapi.call_function_objargs(objects[0], objects[1:])
    for made, given in zip(objects, (function, *args), strict=True):
        if made is not given:
            c.pyapi.decref(made)
    return result


@unbox(StructuralTangentType)
def _unbox(ty: StructuralTangentType, value: Any, c: Any) -> NativeValue:
    items = call_python(c, _values, value, tuple(ty.fields))
    members = (
        (f"field{i}", numba_type, c.pyapi.tuple_getitem(items, i))
        for i, numba_type in enumerate(ty.fields.values())
    )
    native = unboxed_struct(c, ty, members)
    c.pyapi.decref(items)
    return native


@box(StructuralTangentType)
def _box(ty: StructuralTangentType, value: Any, c: Any) -> Any:
    native = cgutils.create_struct_proxy(ty)(c.context, c.builder, value)
    items = [
        c.box(field, getattr(native, f"field{i}")) for i, field in enumerate(ty.fields.values())
    ]
    result = call_python(c, _rebuilt, ty.primal, tuple(ty.fields), *items)
    for item in items:
        c.pyapi.decref(item)
    return result


# --- the constructor ---


class ConstructorType(types.Callable, types.Opaque):
    """The type of `Tangent[P]`."""

    def __init__(self, tangent: TangentOf) -> None:
        self.made = tangent
        super().__init__(f"class({tangent}, {id(tangent.primal)})")

    @property
    def key(self) -> Any:
        """The key by which Numba compares types."""
        return self.made.primal

    def get_call_type(self, context: TypingContext, args: Any, kws: Any) -> Any:
        """The signature of a call; its parameters are the fields, in their order."""
        try:
            fields = self.made.backing(tuple(args), kws)
        except TypeError as error:
            raise TypingError(str(error)) from error
        result = _struct(self.made.primal, {k: runtime_type(v) for k, v in fields.items()})
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(_identifier(key), kind) for key in result.fields]
        pysig = inspect.Signature(parameters)
        return signature(result, *result.fields.values()).replace(pysig=pysig)

    def get_call_signatures(self) -> Any:
        """No signature is known before a call."""
        return (), True

    def get_impl_key(self, sig: Any) -> Any:
        """The class: all constructors have the same implementation."""
        return type(self)


def _identifier(key: Key) -> str:
    """The attribute name of a field; those of tuples, which have none, are made from positions."""
    return f"_{key}" if isinstance(key, int) else key


@typeof_impl.register(TangentOf)
def _typeof_constructor(value: TangentOf, c: Any) -> ConstructorType:
    return ConstructorType(value)


carries_no_data(ConstructorType)


@lower_builtin(ConstructorType, types.VarArg(types.Any))
def _construct(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    native = cgutils.create_struct_proxy(sig.return_type)(context, builder)
    for i, (value, source) in enumerate(zip(args, sig.args, strict=True)):
        ty = tuple(sig.return_type.fields.values())[i]
        setattr(native, f"field{i}", context.cast(builder, value, source, ty))
    return impl_ret_borrowed(context, builder, sig.return_type, native._getvalue())


@type_callable(Tangent)
def _type_tangent(context: Any) -> Any:
    def typer() -> Any:
        raise TypingError("a tangent belongs to a type: Tangent[P](...)")

    return typer


@overload(operator.getitem)
def _of_class(x, index):
    if getattr(x, "typing_key", None) is not Tangent:
        return None
    primal = getattr(index, "instance_class", None) or getattr(index, "typing_key", None)
    if not isinstance(primal, type):
        raise TypingError(f"write Tangent[...] of {index} outside of @njit")
    constructor = TangentOf(primal)
    return lambda x, index: constructor


# --- fields ---


def _field_type(tangent: StructuralTangentType, key: Any) -> types.Type | None:
    """The type of a field; None if the primal has no such field."""
    names = names_of(tangent.primal)
    if key in tangent.fields:
        return tangent.fields[key]
    return _ZERO if names is not None and key in names else None


@infer_getattr
class _Attributes(AttributeTemplate):
    key = StructuralTangentType

    def generic_resolve(self, tangent: StructuralTangentType, attribute: str) -> types.Type | None:
        return _field_type(tangent, _key(tangent, attribute))


def _key(tangent: StructuralTangentType, attribute: str) -> Key:
    positions = {_identifier(key): key for key in tangent.fields}
    return positions.get(attribute, attribute)


@lower_getattr_generic(StructuralTangentType)
def _get(
    context: Context, builder: Builder, tangent: StructuralTangentType, value: Value, attribute: str
) -> Value:
    key = _key(tangent, attribute)
    if key not in tangent.fields:
        return context.get_dummy_value()
    native = cgutils.create_struct_proxy(tangent)(context, builder, value)
    field = getattr(native, f"field{tuple(tangent.fields).index(key)}")
    return impl_ret_borrowed(context, builder, tangent.fields[key], field)


@overload(operator.getitem, prefer_literal=True)
def _item(tangent, index):
    if not isinstance(tangent, StructuralTangentType) or not isinstance(index, types.Literal):
        return None
    key = index.literal_value
    keys = tangent.entries
    if isinstance(key, int):
        if not -len(keys) <= key < len(keys):
            raise TypingError(f"{tangent} has no entry {key}")
        key = keys[key]
    return _from_source(f"def impl(tangent, index): return tangent.{_identifier(key)}")


@overload(len)
def _len(tangent):
    if not isinstance(tangent, StructuralTangentType):
        return None
    count = len(tangent.entries)
    return lambda tangent: count


@overload(tuple)
def _tuple(tangent):
    if not isinstance(tangent, StructuralTangentType):
        return None
    items = tuple_of(f"tangent.{_identifier(key)}" for key in tangent.entries)
    return _from_source(f"def impl(tangent): return {items}")


def _types_of_items(tangent: StructuralTangentType) -> list[types.Type]:
    """The types of the items that a loop over a tangent yields."""
    return [tangent.fields.get(key, _ZERO) for key in tangent.entries]


@infer
class _Iterator(AbstractTemplate):
    key = "getiter"

    def generic(self, args: Any, kws: Any) -> Any:
        """Type iteration over entries of one type as iteration over a tuple."""
        (tangent,) = args
        if not isinstance(tangent, StructuralTangentType):
            return None
        items = _types_of_items(tangent)
        if len(set(items)) != 1:
            raise TypingError(
                f"a loop over {tangent}, whose entries are of different types: "
                "literal_unroll(tuple(t)) has a body for each"
            )
        return signature(types.UniTuple(items[0], len(items)).iterator_type, tangent)


@lower_builtin("getiter", StructuralTangentType)
def _iterate(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Any:
    items = _types_of_items(sig.args[0])
    ty = types.UniTuple(items[0], len(items))
    native = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    positions = {key: i for i, key in enumerate(sig.args[0].fields)}
    values = [
        getattr(native, f"field{positions[key]}") if key in positions else context.get_dummy_value()
        for key in sig.args[0].entries
    ]
    begin = context.get_function("getiter", signature(sig.return_type, ty))
    return begin(builder, (context.make_tuple(builder, ty, values),))


# --- algebra ---


def _from_source(source: str, **names: Any) -> Any:
    return function_from(source, "impl", {**_ALGEBRA, **names}, module=__name__)


_ALGEBRA = {"plus": plus, "times": times, "over": over, "conjugate": conjugate}


def _made(tangent: StructuralTangentType, head: str, fields: dict[Key, str], **names: Any) -> Any:
    """The implementation that returns a tangent of the same class with these fields, whose
    expressions may mention `names`.
    """
    entries = ", ".join(
        text if isinstance(key, int) else f"{key}={text}" for key, text in fields.items()
    )
    source = f"def impl({head}): return make({entries})"
    return _from_source(source, make=TangentOf(tangent.primal), **names)


def _sum(x: Any, y: Any) -> Any:
    if isinstance(x, TangentType) or isinstance(y, TangentType):
        return None
    if isinstance(x, StructuralTangentType) and isinstance(y, StructuralTangentType):
        return _sum_of_tangents(x, y)
    if isinstance(y, StructuralTangentType):
        return _moved(x, y)
    if isinstance(x, StructuralTangentType):
        return lambda x, y: y + x
    return None


def _sum_of_tangents(x: StructuralTangentType, y: StructuralTangentType) -> Any:
    if x.primal is not y.primal:
        raise TypingError(f"cannot add {y} to {x}: tangents of different types")
    fields: dict[Key, str] = {}
    for key in dict.fromkeys((*x.fields, *y.fields)):
        name = _identifier(key)
        sides = [f"{side}.{name}" for side, t in (("x", x), ("y", y)) if key in t.fields]
        fields[key] = sides[0] if len(sides) == 1 else f"plus({', '.join(sides)})"
    return _made(x, "x, y", fields)


def _moved(x: Any, y: StructuralTangentType) -> Any:
    """The primal `x` moved by the tangent `y`: a new value of its type."""
    if isinstance(x, types.BaseTuple):
        named = getattr(x, "instance_class", None)
        if (named or tuple) is not y.primal:
            raise TypingError(f"cannot add {y} to {x}: it is not a {y.primal.__name__}")
        keys: Any = y.primal._fields if named else range(len(x))
        if not y.fields.keys() <= set(keys):
            raise TypingError(f"cannot add {y} to {x}: it has no such entries")
        parts = [(f"x[{i}]", key) for i, key in enumerate(keys)]
    elif isinstance(x, types.ClassInstanceType):
        if getattr(y.primal, "class_type", None) != x.class_type:
            raise TypingError(f"cannot add {y} to {x}: it is not a {y.primal.__name__}")
        parts = [(f"x.{key}", key) for key in _constructor_fields(x)]
    else:
        raise TypingError(f"cannot add {y} to {x}: it is not a {y.primal.__name__}")
    moved = [
        f"plus({value}, y.{_identifier(key)})" if key in y.fields else value for value, key in parts
    ]
    make = "" if y.primal is tuple else "make"
    return _from_source(f"def impl(x, y): return {make}({', '.join(moved)},)", make=y.primal)


def _constructor_fields(x: types.ClassInstanceType) -> tuple[str, ...]:
    """The fields of a jitclass in the order its constructor takes them."""
    fields = tuple(inspect.signature(x.jit_methods["__init__"].py_func).parameters)[1:]
    if set(fields) != set(x.struct):
        raise TypingError(f"cannot add to {x}: its constructor takes {', '.join(fields)}")
    return fields


def _each(tangent: StructuralTangentType, head: str, pattern: str) -> Any:
    """The implementation that applies an operation to every field."""
    fields = {key: pattern.format(f"{head[0]}.{_identifier(key)}") for key in tangent.fields}
    return _made(tangent, head, fields)


def _register(function: Any, implementation: Any) -> None:
    @overload(function)
    def _binary(x, y):
        return implementation(x, y)


def _product(x: Any, y: Any) -> Any:
    if isinstance(x, StructuralTangentType) and isinstance(y, types.Number):
        return _each(x, "x, y", "times({}, y)")
    if isinstance(y, StructuralTangentType) and isinstance(x, types.Number):
        return lambda x, y: y * x
    return None


def _quotient(x: Any, y: Any) -> Any:
    if isinstance(x, StructuralTangentType) and isinstance(y, types.Number):
        return _each(x, "x, y", "over({}, y)")
    return None


def _difference(x: Any, y: Any) -> Any:
    if isinstance(y, StructuralTangentType) and not isinstance(x, TangentType):
        return lambda x, y: x + (-y)
    return None


for _functions, _implementation in (
    ((operator.add, operator.iadd), _sum),
    ((operator.sub, operator.isub), _difference),
    ((operator.mul, operator.imul), _product),
    ((operator.truediv, operator.itruediv), _quotient),
):
    for _function in _functions:
        _register(_function, _implementation)


@overload(operator.neg)
def _neg(x):
    return (lambda x: x * -1.0) if isinstance(x, StructuralTangentType) else None


@overload(operator.pos)
def _pos(x):
    return (lambda x: x) if isinstance(x, StructuralTangentType) else None


@overload_method(StructuralTangentType, "conjugate")
def _conjugate(t):
    return _each(t, "t", "conjugate({})")


@overload(canonicalize)
def _canonicalize(tangent):
    if not isinstance(tangent, StructuralTangentType):
        return None
    fields = {
        key: f"tangent.{_identifier(key)}" if key in tangent.fields else "zero"
        for key in tangent.entries
    }
    return _made(tangent, "tangent", fields, zero=ZeroTangent())


# --- operations on fields (X2) ---


@overload(plus)
def _plus(x, y):
    if isinstance(x, types.BaseTuple) and isinstance(y, types.BaseTuple):
        if len(x) != len(y):
            raise TypingError(f"tangents of {len(x)} and {len(y)} entries")
        return item_by_item(x, "x, y", "plus(x[{i}], y[{i}])", _ALGEBRA, module=__name__)
    return lambda x, y: x + y


@overload(times)
def _times(x, factor):
    if isinstance(x, types.BaseTuple):
        return item_by_item(x, "x, factor", "times(x[{i}], factor)", _ALGEBRA, module=__name__)
    return lambda x, factor: x * factor


@overload(over)
def _over(x, divisor):
    if isinstance(x, types.BaseTuple):
        return item_by_item(x, "x, divisor", "over(x[{i}], divisor)", _ALGEBRA, module=__name__)
    return lambda x, divisor: x / divisor
