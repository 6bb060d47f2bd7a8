"""A pullback as a value: a compiled stub that carries the tape and the arrays it works on.

`pullback(cotangent)` calls the stub with the pullback itself before the cotangent. The stubs of
`vjp` call `make_with_pullback`, which returns `(out, pullback)`, and `run_pullback`, which returns
the cotangents of the primals.

A pullback carries the tape, the primals, one working shadow per Duplicated primal, and the shadow
of the result. A run clears the shadows, adds the cotangent to that of the result, runs the reverse,
and returns copies. Both are intrinsics that leak no reference if they raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.pythonapi import _boxers
from numba.core.typing.templates import signature
from numba.extending import NativeValue, box, intrinsic, models, register_model, unbox

from activerules.annotations.activity import SHADOWED, Const, Duplicated
from activerules.annotations.signature import SplitSpec
from activerules.annotations.trees import LEAVES, flattened, restored
from activerules.errors import NotYetSupported, ShadowMismatch, TapeError
from activerules.numba_ext.calls.emitter import (
    BY_SHADOW,
    DerivativeCall,
    Field,
    with_new_shadows,
)
from activerules.numba_ext.calls.error_context import run_compiled, say_shapes
from activerules.numba_ext.calls.intrinsics import compiled_only
from activerules.numba_ext.calls.refused_kinds import refuse_kind
from activerules.numba_ext.codegen.protocols import Builder, Context, Emit, TypingContext, Value
from activerules.numba_ext.codegen.stubs import StubType
from activerules.numba_ext.codegen.types import (
    AnnotationType,
    attributes_of,
    runtime_type,
    unboxed_struct,
)
from activerules.numba_ext.split import cotangents
from activerules.numba_ext.split.cotangents import require_fitting
from activerules.numba_ext.split.forms import SplitEmitter, read_split, tape_type
from activerules.numba_ext.split.split_results import shadow_of
from activerules.numba_ext.split.tape_handle import FRESH, RUNNING, constant, state_of
from activerules.rules.pattern import type_name
from activerules.values.kinds import gradient_of_leaf, is_number_array, items_of, leaves_of
from activerules.values.kinds import shadow_type as shadow_type_of
from activerules.values.layout import Node, Number, layout_of, map_type, shadow_of_leaf
from activerules.values.shadows import (
    add_cotangent,
    clear_shadow,
    copy_of_shadow,
    own_constants,
)
from activerules.values.walk import rebuild


class PullbackType(StubType):
    """The type of the pullbacks of one stub, which includes the type of their data."""

    def __init__(self, dispatcher: Any, data: types.BaseTuple) -> None:
        self.data, self.entry = data, dispatcher
        super().__init__(dispatcher)
        self.name = f"pullback({self.stub}, {data})"
        self._hash = hash(self.key)  # expensive, and needed by each call from Python

    def __hash__(self) -> int:
        """The hash of the key."""
        return self._hash

    @property
    def key(self) -> Any:
        """The key by which Numba compares types."""
        return self.stub.key, self.data

    def get_call_type(self, context: TypingContext, args: Any, kws: Any) -> Any:
        """The signature of a call, with the pullback as its receiver."""
        if kws:
            raise TypeError("a pullback takes the cotangent, and no keyword")
        typed = super().get_call_type(context, (self, *args), {})
        return signature(typed.return_type, *typed.args[1:], recvr=self)


@register_model(PullbackType)
class _PullbackModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: PullbackType) -> None:
        super().__init__(dmm, fe_type, [("data", fe_type.data)])


class Pullback:
    """A pullback in Python; `pullback(cotangent)` gives one cotangent per argument."""

    # Numba's dispatchers read the type of an argument from `_numba_type_`
    __slots__ = ("_data", "_numba_type_")

    def __init__(self, pullback_type: PullbackType, data: tuple[Any, ...]) -> None:
        self._numba_type_, self._data = pullback_type, data

    def __call__(self, cotangent: Any) -> Any:
        """Return the cotangents of the primals, `None` for those that carry no derivative."""
        return self._run(self._numba_type_.entry, self, cotangent)

    def _run(self, entry: Any, data: Any, cotangent: Any) -> Any:
        flat = cotangent if type(cotangent) in LEAVES else flattened(cotangent)
        try:
            entries = run_compiled(entry, data, flat)
        except ShadowMismatch as error:
            error.where.insert(0, ("in", repr(self), ""))
            say_shapes(error, "the cotangent", flat, self._data[3])
            raise
        return entries if LEAVES.issuperset(map(type, entries)) else restored(entries)

    def __repr__(self) -> str:
        """Name the function of the pullback."""
        tape: Any = items_of(self._numba_type_.data)[0]
        return f"<pullback of {tape.function}>"

    def __reduce__(self) -> Any:
        """Raise `TypeError`: a pullback is memory of this process."""
        raise TypeError("a pullback cannot be pickled or copied")


class PullbackApart(Pullback):
    """A pullback that Python runs by calling `run_data` with the pullback's data."""

    __slots__ = ("_run_data",)

    def __init__(self, pullback_type: PullbackType, data: tuple[Any, ...], run_data: Any) -> None:
        super().__init__(pullback_type, data)
        self._run_data = run_data

    def __call__(self, cotangent: Any) -> Any:
        """Return the cotangents of the primals, `None` for those that carry no derivative."""
        return self._run(self._run_data, self._data, cotangent)


@intrinsic
def bind(typing_context, stub, data):
    """A pullback of `stub` that carries `data`."""
    bound = PullbackType(stub.stub.dispatcher, data)

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        pullback = cgutils.create_struct_proxy(bound)(context, builder)
        pullback.data = values[1]
        context.nrt.incref(builder, data, values[1])
        return pullback._getvalue()

    return signature(bound, stub, data), codegen


@intrinsic
def data_of(typing_context, pullback):
    """The data that a pullback carries: copies, shadows, tape."""

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Any:
        data = cgutils.create_struct_proxy(pullback)(context, builder, values[0]).data
        context.nrt.incref(builder, pullback.data, data)
        return data

    return signature(pullback.data, pullback), codegen


@box(PullbackType)
def _box_pullback(ty: PullbackType, value: Any, c: Any) -> Any:
    native = cgutils.create_struct_proxy(ty)(c.context, c.builder, value)
    # The type refers to functions of the user, which need not be picklable. So its address is used:
    # that is valid in this process only, and Numba does not cache code with it on disk.
    _boxed[id(ty)] = ty
    address = c.context.add_dynamic_addr(c.builder, id(ty), info="activerules pullback")
    data = c.box(ty.data, native.data)
    result = c.pyapi.call_function_objargs(constant(c, Pullback), [address, data])
    c.pyapi.decref(data)
    return result


_boxed: dict[int, PullbackType] = {}


def require_kept(names: Sequence[str], argtypes: Sequence[Any]) -> None:
    """Raise `NotYetSupported` for arguments that a pullback in Python cannot store: those of types,
    such as slices, that Numba unboxes but does not box. `ActivityError` for a buffer.
    """
    for name, ty in zip(names, argtypes, strict=False):
        refuse_kind(name, ty)
        if is_never_boxed(ty):
            raise NotYetSupported(
                f"`{name}` is {type_name(ty)}, which a pullback cannot keep in Python",
                why="Numba takes values of this type from Python, but does not return any",
                instead=[
                    "pass the numbers in it",
                    "call vjp in an @njit function, or autodiff",
                ],
            )


def is_never_boxed(ty: Any) -> bool:
    """Whether Python cannot hold a value of this type, or an item of it if it is a tuple."""
    from numba.core.boxing import box_unsupported  # late: it imports Numba's sets and lists, slowly

    leaves = [*leaves_of(ty)]
    items = [leaf.dtype for leaf in leaves if isinstance(leaf, types.List)]
    return (
        any(_boxers.lookup(type(leaf), box_unsupported) is box_unsupported for leaf in leaves)
        or any(isinstance(item, types.List) for item in items)
        or any(map(is_never_boxed, items))
    )


@unbox(PullbackType)
def _unbox_pullback(ty: PullbackType, value: Any, c: Any) -> NativeValue:
    return unboxed_struct(c, ty, attributes_of(c, value, {"data": ty.data}, prefix="_"))


@compiled_only
def make_with_pullback(typing_context, stub, spec, function, *args):
    """`(out, pullback)` for plain arguments; the pullback runs `stub`."""
    args = tuple(map(runtime_type, args))
    split_spec, call = read_plain(spec.value, function, args)
    result = call.gradient.result_type
    pullback_type = PullbackType(stub.stub.dispatcher, _data_type(call, args))

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        em = Emit(context, builder)
        emitter = SplitEmitter(em, call, split_spec, owns_shadows=True)
        primals = cgutils.unpack_tuple(builder, values[3], len(args))
        fields = with_new_shadows(em, call.arguments, primals)
        tape, out, (shadow,) = emitter.record(fields)
        context.nrt.incref(builder, shadow_of(result), shadow)
        _, primal_types, shadow_types, _ = items_of(pullback_type.data)
        primal_tuple = context.make_tuple(builder, primal_types, primals)
        context.nrt.incref(builder, primal_types, primal_tuple)
        shadows = [shadow for _, lanes in fields for shadow in lanes]
        for ty, lane in zip(items_of(shadow_types), shadows, strict=True):
            own_constants(em, ty, lane)
        packed = context.make_tuple(builder, shadow_types, shadows)
        pullback = cgutils.create_struct_proxy(pullback_type)(context, builder)
        parts = [tape, primal_tuple, packed, shadow]
        pullback.data = context.make_tuple(builder, pullback_type.data, parts)
        return context.make_tuple(builder, typed.return_type, [out, pullback._getvalue()])

    out_type = types.Tuple([result, pullback_type])
    return signature(out_type, stub, spec, function, types.Tuple(args)), codegen


@compiled_only
def run_pullback(typing_context, spec, function, pullback, cotangent):
    """One cotangent per primal; None for those that carry no derivative."""
    parts: Any = items_of(pullback.data)
    _, args, _, shadow_type = parts
    split_spec, call = read_plain(spec.value, function, args)
    require_fitting(shadow_type, cotangent)
    items = [
        types.none if kind is Const else map_type(layout_of(ty), _pulled_leaf_type)
        for kind, ty in zip(split_spec.arguments, args, strict=True)
    ]

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        emitter = SplitEmitter(Emit(context, builder), call, split_spec, has_cotangent=True)
        run = _Run(emitter, pullback, cotangent, values[2:])
        run.prepare()
        (bars,) = emitter.play(run.fields(split_spec), [(cotangent, values[3])], run.tape)
        items = run.copies(split_spec, bars)
        run.block.set_state(FRESH)
        return context.make_tuple(builder, typed.return_type, items)

    result = types.Tuple(items)
    return signature(result, spec, function, pullback, cotangent), codegen


def read_plain(
    split_spec: SplitSpec, function: Any, args: Sequence[Any]
) -> tuple[SplitSpec, DerivativeCall]:
    """Like `read_split`, for the types of plain arguments."""
    return read_split(split_spec, function, _annotated(split_spec, args))


def _annotated(split_spec: SplitSpec, args: Sequence[Any]) -> list[Any]:
    """The annotation types of plain arguments."""
    return [
        ty
        if kind is Const
        else AnnotationType(kind, ty, *([shadow_type_of(ty)] if kind in SHADOWED else []))
        for kind, ty in zip(split_spec.arguments, args, strict=True)
    ]


def _pulled_leaf_type(leaf: Node) -> Any:
    result = gradient_of_leaf(leaf)
    return result.copy(layout="C") if is_number_array(result) else result


def _data_type(call: DerivativeCall, args: Sequence[Any]) -> types.BaseTuple:
    """The types of tape, primals, working shadows, and the shadow of the result."""
    shadows = [shadow_type_of(a.numba_type) for a in call.arguments if a.activity in BY_SHADOW]
    result = shadow_of(call.gradient.result_type)
    return types.Tuple([tape_type(call), types.Tuple(args), types.Tuple(shadows), result])


class _Run:
    """One call of a pullback, in the IR of its stub."""

    def __init__(
        self, emitter: SplitEmitter, pullback: PullbackType, cotangent: Any, values: Any
    ) -> None:
        self.emitter = emitter
        self.context, self.builder = context, builder = emitter.context, emitter.builder
        self.em = emitter.em
        self.types: Any = items_of(pullback.data)
        native = cgutils.create_struct_proxy(pullback)(context, builder, values[0])
        parts = cgutils.unpack_tuple(builder, native.data, 4)
        self.tape, self.primals, self.shadows, self.shadow = parts
        self.cotangent_type, self.cotangent = cotangent, values[1]
        self.block = state_of(self.em, self.types[0], self.tape)

    def prepare(self) -> None:
        """Check the cotangent, claim the tape, clear the shadows, and add the cotangent."""
        builder = self.builder
        pair_types, pair = (self.types[3], self.cotangent_type), (self.shadow, self.cotangent)
        fits = cotangents.fits(self.em, pair_types, pair)
        message = "the cotangent does not have the shape of the result, or only one of them is None"
        self.em.raise_if(builder.not_(fits), ShadowMismatch, (message,))
        taken = self.block.change_state(FRESH, RUNNING)
        message = "the pullback runs already (in another thread), or its last run failed"
        self.em.raise_if(builder.not_(taken), TapeError, (message,))
        clear_shadow(self.em, self.types[2], self.shadows)
        clear_shadow(self.em, self.types[3], self.shadow)
        add_cotangent(self.em, pair_types, pair)

    def fields(self, split_spec: SplitSpec) -> list[Field]:
        """Primal and working shadow of every argument."""
        primals = cgutils.unpack_tuple(self.builder, self.primals, len(split_spec.arguments))
        shadows = iter(cgutils.unpack_tuple(self.builder, self.shadows, len(self.types[2])))
        return [
            (primal, (next(shadows),) if kind in SHADOWED else ())
            for kind, primal in zip(split_spec.arguments, primals, strict=True)
        ]

    def copies(self, split_spec: SplitSpec, bars: Sequence[Any]) -> list[Any]:
        """The derivatives; for Duplicated arguments, copies of the working shadows."""
        rows = zip(split_spec.arguments, self.types[1], self.fields(split_spec), bars, strict=True)
        return [
            self._pulled(ty, lanes[0], None if kind is Duplicated else bar) if lanes else bar
            for kind, ty, (_, lanes), bar in rows
        ]

    def _pulled(self, ty: Any, shadow: Value, bar: Any) -> Any:
        """One cotangent: copies of the shadow, and the derivatives in `bar`."""
        return rebuild(self.em, layout_of(ty), (shadow, bar), self._pulled_leaf, _pulled_leaf_type)

    def _pulled_leaf(self, em: Emit, leaf: Node, shadow: Value, bar: Any) -> Any:
        ty = leaf.numba_type
        if is_number_array(ty):
            source = shadow_of_leaf(leaf)
            result = source.copy(layout="C")
            copy = cotangents.copy_of_shadow
            return self.emitter.call_jitable(copy, signature(result, source), (shadow,))
        if leaf.has_shadow:
            return copy_of_shadow(self.em, ty, shadow)
        return bar if isinstance(leaf, Number) else self.context.get_dummy_value()
