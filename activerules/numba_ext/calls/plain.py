"""Compiled forms that take the fields of annotations instead of annotations.

A call from Python spends 10 to 20 microseconds per annotated array on finding the Numba type of the
annotation, as long as a small gradient takes; for arrays and numbers the lookup is fast. So the
entry points called from Python take the fields, and a type that says how to group them.

An entry point takes its arguments apart, checks their memory and calls a derivative. Its own
instructions run once per call; optimising them took a fifth of the time Numba takes to compile the
primal.

Needs       a form of annotated arguments, as in `intrinsics` and `split.forms`
Gives       `plain_form`: the same of their fields; `spread`: a call's annotations as fields
Invariants  P1  the fields are borrowed, as annotations are: no reference is taken or given back
            P2  an entry point is compiled without optimisation, except that Numba's pruning of
                reference counts keeps its error paths from leaking

The code it links is optimised: the derivative is a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.annotations.activity import KINDS, Annotation
from activerules.annotations.signature import PlainSpec
from activerules.annotations.trees import are_flat, flattened
from activerules.numba_ext.codegen.entry_points import leave_unoptimised
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value
from activerules.numba_ext.codegen.types import (
    AnnotationType,
    StaticType,
    register_static,
    runtime_type,
)


class PlainType(StaticType):
    """The type of one `PlainSpec`."""


register_static(PlainSpec, PlainType)

_WITH_SHADOW = frozenset(kind for kind in KINDS if len(kind.__slots__) == 2)
_WITHOUT_SHADOW = frozenset(KINDS) - _WITH_SHADOW

Kinds = tuple[type[Annotation] | None, ...]


def spread(arguments: Sequence[Any]) -> tuple[Kinds, list[Any]]:
    """The annotation class of each argument (None for a bare value), and all fields in order.

    Raises `ActivityError` for arrays that Numba would take for others, see `flattened`.
    """
    kinds: list[type[Annotation] | None] = []
    fields: list[Any] = []
    for argument in arguments:
        kind = type(argument)
        if kind in _WITH_SHADOW:
            fields += (argument.val, argument.dval)
        elif kind in _WITHOUT_SHADOW:
            fields.append(argument.val)
        else:
            kind = None
            fields.append(argument)
        kinds.append(kind)
    if not are_flat(fields):
        flattened(tuple(fields))
    return tuple(kinds), fields


def plain_form(
    form: Callable[..., Any],
    typing_context: TypingContext,
    spec: Any,
    function: Any,
    fields: tuple[Any, ...],
) -> Any:
    """`form(request, function, [return activity,] *annotated)`, called as `(spec, function,
    *fields)`.
    """
    plain = spec.value
    annotated = tuple(_grouped(plain.kinds, tuple(map(runtime_type, fields))))
    markers = () if plain.result is None else (plain.result,)
    outer = [typing_context.resolve_value_type(x) for x in (plain.request, *markers)]
    deferred = {"deferred": True} if plain.deferred else {}
    typed, codegen = form(typing_context, outer[0], function, *outer[1:], *annotated, **deferred)

    def emit(context: Context, builder: Builder, _: Any, values: Sequence[Value]) -> Any:
        leave_unoptimised(builder.function)
        passed = zip(fields, cgutils.unpack_tuple(builder, values[2], len(fields)), strict=True)
        items = [context.get_dummy_value() for _ in markers]
        items += [_built(context, builder, ty, passed) for ty in annotated]
        packed = context.make_tuple(builder, typed.args[2], items)
        return codegen(context, builder, typed, [context.get_dummy_value(), values[1], packed])

    return signature(typed.return_type, spec, function, types.Tuple(fields)), emit


def _grouped(kinds: Kinds, fields: Sequence[Any]) -> Iterator[Any]:
    """The types of the arguments, built from the types of all fields."""
    rest = iter(fields)
    for kind in kinds:
        if kind is None:
            yield next(rest)
        else:
            yield AnnotationType(kind, *(next(rest) for _ in kind.__slots__))


def _built(context: Context, builder: Builder, ty: Any, passed: Iterator[tuple[Any, Any]]) -> Value:
    """An argument of type `ty`, built from the next types and values of `passed`."""
    if not isinstance(ty, AnnotationType):
        source, value = next(passed)
        return context.cast(builder, value, source, ty)
    annotation = cgutils.create_struct_proxy(ty)(context, builder)
    for name, field in zip(ty.kind.__slots__, ty.fields, strict=True):
        source, value = next(passed)
        setattr(annotation, name, context.cast(builder, value, source, field))
    return annotation._getvalue()
