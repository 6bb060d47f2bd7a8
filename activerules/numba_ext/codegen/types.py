"""The Numba types of annotations, modes, rule configurations, and tangents without data.

An annotation is a struct of `val` and, if it has a shadow, `dval`; it owns a reference to each.
Modes and configurations have no data: everything about them is in the type, and so known at compile
time. Their types contain the epoch of the rule registry, so that whatever Numba caches by type is
invalidated when the rules change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    box,
    infer_getattr,
    lower_builtin,
    lower_getattr,
    models,
    overload,
    overload_method,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)

from activerules.annotations.activity import KINDS, Annotation
from activerules.annotations.signature import GradientSpec, Mode
from activerules.annotations.tangents import is_zero
from activerules.errors import ActivityError
from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.codegen.stubs import carries_no_data
from activerules.rules.pattern import type_name
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES

# --- annotations ---


class AnnotationType(types.Type):
    """`Duplicated(array, array)`: the class of an annotation and the types of its fields."""

    def __init__(self, kind: type[Annotation], *fields: types.Type) -> None:
        self.kind = kind
        self.fields = fields
        super().__init__(f"{kind.__name__}({', '.join(map(str, fields))})")

    @property
    def key(self) -> Any:
        """The key by which Numba compares types."""
        return self.kind, self.fields

    @property
    def val(self) -> types.Type:
        """The type of the value."""
        return self.fields[0]

    @property
    def dval(self) -> types.Type | None:
        """The type of the shadow, or None for annotations without one."""
        return self.fields[1] if len(self.fields) > 1 else None

    def is_precise(self) -> bool:
        """Whether Numba's type inference need not refine this type."""
        return all(field.is_precise() for field in self.fields)


def refused_annotation(name: str, ty: AnnotationType) -> ActivityError:
    """The error for an annotation given where a plain value was expected."""
    return ActivityError(
        f"`{name}` is {type_name(ty)}, an annotation",
        why="plain values are given here; argnums, a tangent of None, or what is left out of the "
        "result tells what is constant",
        instead=[f"`{name}` itself", "autodiff, where each argument has an annotation"],
    )


@register_model(AnnotationType)
class _AnnotationModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: AnnotationType) -> None:
        members = zip(fe_type.kind.__slots__, fe_type.fields, strict=True)
        super().__init__(dmm, fe_type, list(members))


@typeof_impl.register(Annotation)
def _typeof_annotation(value: Annotation, c: Any) -> AnnotationType | None:
    fields = [typeof_impl(field, c) for field in value.fields]
    return None if None in fields else AnnotationType(type(value), *fields)


@infer_getattr
class _AnnotationAttributes(AttributeTemplate):
    key = AnnotationType

    def generic_resolve(self, annotation: AnnotationType, attribute: str) -> types.Type | None:
        fields = zip(annotation.kind.__slots__, annotation.fields, strict=True)
        return dict(fields).get(attribute)


def _lower_field(name: str) -> None:
    @lower_getattr(AnnotationType, name)
    def _get(context: Context, builder: Builder, annotation: AnnotationType, value: Value) -> Any:
        field = getattr(cgutils.create_struct_proxy(annotation)(context, builder, value), name)
        index = annotation.kind.__slots__.index(name)
        context.nrt.incref(builder, annotation.fields[index], field)
        return field


def runtime_type(ty: Any) -> Any:
    """The type without Numba's literals, which values passed at run time do not have. A literal of
    another package may be the type of its values, and functions choose their code by it.
    """
    if isinstance(ty, types.BaseAnonymousTuple):
        items: Any = ty
        return type(ty).from_types(tuple(map(runtime_type, items)))
    kept = isinstance(ty, types.Literal) and not type(ty).__module__.startswith("numba.")
    return ty if kept else types.unliteral(ty)


def _register_constructor(kind: type[Annotation]) -> None:
    @type_callable(kind)
    def _type(context: Any) -> Any:
        if len(kind.__slots__) == 1:
            return lambda val: AnnotationType(kind, runtime_type(val))

        construct: Any = kind

        def with_shadow(val: Any, dval: Any = None) -> AnnotationType:
            if dval is None:
                construct(val)  # raises, as it does in Python
            return AnnotationType(kind, runtime_type(val), runtime_type(dval))

        return with_shadow

    @lower_builtin(kind, *[types.Any] * len(kind.__slots__))
    def _construct(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
        annotation = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        for name, source, target, value in zip(
            kind.__slots__, sig.args, sig.return_type.fields, args, strict=True
        ):
            field = context.cast(builder, value, source, target)
            context.nrt.incref(builder, target, field)
            setattr(annotation, name, field)
        return annotation._getvalue()


for _name in ("val", "dval"):
    _lower_field(_name)
for _kind in KINDS:
    _register_constructor(_kind)


@unbox(AnnotationType)
def _unbox_annotation(annotation: AnnotationType, value: Any, c: Any) -> NativeValue:
    fields = dict(zip(annotation.kind.__slots__, annotation.fields, strict=True))
    return unboxed_struct(c, annotation, attributes_of(c, value, fields))


def attributes_of(
    c: Any, value: Any, fields: Mapping[str, types.Type], prefix: str = ""
) -> Iterator[tuple[str, types.Type, Any]]:
    """The members of a struct for `unboxed_struct`: the attributes of an object, whose names are
    those of the fields after a prefix.
    """
    for name, field in fields.items():
        item = c.pyapi.object_getattr_string(value, prefix + name)
        yield name, field, item
        c.pyapi.decref(item)


def unboxed_struct(c: Any, ty: types.Type, members: Iterable[tuple[str, Any, Any]]) -> NativeValue:
    """A struct of values from Python; `members` are the names, types and borrowed objects."""
    native = cgutils.create_struct_proxy(ty)(c.context, c.builder)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    cleanups: list[Any] = []
    for name, member, item in members:
        unboxed = c.unbox(member, item)
        setattr(native, name, unboxed.value)
        if unboxed.cleanup is not None:
            cleanups.append(unboxed.cleanup)
        c.builder.store(c.builder.or_(c.builder.load(failed), unboxed.is_error), failed)

    def clean_up() -> None:
        for cleanup in reversed(cleanups):
            cleanup()

    return NativeValue(
        native._getvalue(), c.builder.load(failed), cleanup=clean_up if cleanups else None
    )


@box(AnnotationType)
def _box_annotation(annotation: AnnotationType, value: Any, c: Any) -> Any:
    native = cgutils.create_struct_proxy(annotation)(c.context, c.builder, value)
    fields = zip(annotation.kind.__slots__, annotation.fields, strict=True)
    items = [c.box(field, getattr(native, name)) for name, field in fields]
    kind = c.pyapi.unserialize(c.pyapi.serialize_object(annotation.kind))
    result = c.pyapi.call_function_objargs(kind, items)
    for item in (kind, *items):
        c.pyapi.decref(item)
    return result


def marker_class(ty: Any) -> type[Annotation] | None:
    """Return the annotation class that a Numba type stands for: `Active` used as a value in
    `@njit`.
    """
    key = getattr(ty, "typing_key", None) if isinstance(ty, types.Function) else None
    return key if isinstance(key, type) and issubclass(key, Annotation) else None


def read_marker(args: Sequence[Any]) -> tuple[type[Annotation] | None, Sequence[Any]]:
    """The activity of the return, if it precedes the arguments of a call, and the arguments."""
    marker = marker_class(args[0]) if args else None
    return marker, args if marker is None else args[1:]


# --- values that are known at compile time: types without data ---


class StaticType(types.Dummy):
    """The type of one immutable Python value, under one state of the rules.

    The epoch is part of it, so that whatever Numba caches by type is invalidated when the rules
    change.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(f"{value!r} under the rules of epoch {RULES.epoch}")


class ModeType(StaticType):
    """The type of one mode of differentiation."""


class ConfigType(StaticType):
    """The type of one rule configuration."""


class SpecType(StaticType):
    """The type of what `grad` and `value_and_grad` ask for."""


def register_static(python_class: type, numba_class: type[StaticType]) -> None:
    """Make the values of a Python class values without data inside `@njit`."""
    carries_no_data(numba_class)

    @typeof_impl.register(python_class)
    def _typeof(value: Any, c: Any) -> StaticType:
        return numba_class(value)


register_static(Mode, ModeType)
register_static(RuleConfig, ConfigType)
register_static(GradientSpec, SpecType)


def _register_option(name: str) -> None:
    @overload_method(ModeType, name)
    def _option(mode):
        result = getattr(mode.value, name)()
        return lambda mode: result


for _name in ("with_primal", "runtime_activity", "strong_zero", "holomorphic", "vector_math"):
    _register_option(_name)


@overload_method(ModeType, "fast")
def _fast(mode, reassociate=True, vector_math=True):
    literals = [getattr(x, "literal_value", x) for x in (reassociate, vector_math)]
    chosen = [getattr(x, "value", x) for x in literals]
    if not all(isinstance(x, bool) for x in chosen):
        return None
    result = mode.value.fast(*chosen)
    return lambda mode, reassociate=True, vector_math=True: result


def as_strict(mode: Any, config: Any) -> Any:
    """The mode for a derivative in a rule: zeros are as strong as where the rule is called."""
    return mode.strong_zero() if config.strong_zero else mode


@overload(as_strict)
def _as_strict(mode, config):
    result = as_strict(mode.value, config.value)
    return lambda mode, config: result


@infer_getattr
class _ConfigAttributes(AttributeTemplate):
    key = ConfigType

    def generic_resolve(self, config: ConfigType, attribute: str) -> types.Type | None:
        value = getattr(config.value, attribute, None)
        if isinstance(value, tuple):
            return types.UniTuple(types.boolean, len(value))
        if isinstance(value, bool):
            return types.boolean
        return types.intp if isinstance(value, int) else None


def _lower_fact(name: str) -> None:
    @lower_getattr(ConfigType, name)
    def _get(context: Context, builder: Builder, config: ConfigType, value: Value) -> Value:
        fact = getattr(config.value, name)
        ty = _ConfigAttributes(context.typing_context).generic_resolve(config, name)
        return context.get_constant_generic(builder, ty, fact)


for _name in RuleConfig.__dataclass_fields__:
    _lower_fact(_name)


# --- tangents without data ---


class TangentType(types.Opaque):
    """The type of a tangent without data; `value` is its only value."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(repr(value))


def is_zero_type(ty: Any) -> bool:
    """Whether the type means a zero tangent: ZeroTangent, NoTangent or None."""
    return ty == types.none or (isinstance(ty, TangentType) and is_zero(ty.value))
