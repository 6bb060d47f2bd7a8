"""`vjp` and `autodiff_thunk` in code that is itself differentiated.

A tape is never differentiated. In such code a pullback, and the tape of a split derivative, keep
copies of the arguments, and the reverse is the gradient of <cotangent, f(x)>, which runs f once
more. Only gradients of functions are then differentiated: see `gradient_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from activerules.annotations.activity import (
    Active,
    Const,
    Duplicated,
    DuplicatedNoNeed,
    MixedDuplicated,
)
from activerules.annotations.signature import Mode, SplitSpec
from activerules.annotations.values import make_zero
from activerules.api.autodiff import autodiff
from activerules.api.derived import GradientFunction
from activerules.api.list_arguments import array_of, typed_list_of
from activerules.api.same_draws import exchange_states, states_if_drawn
from activerules.errors import NotAFloatReturn, NotYetSupported, ShadowMismatch, TapeError
from activerules.nested.options import zero_where_same
from activerules.nested.read_calls import names_of, returned_by
from activerules.numba_ext.calls import call_arguments
from activerules.numba_ext.calls.emitter import RETURNED_NONE, is_batched
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.calls.lanes import one_lane, width_of
from activerules.numba_ext.calls.nested_forms import NestedHalf
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.made_once import COMPILED, in_place_of
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.rules.checks import apart, copied, copy_in_place
from activerules.numba_ext.split.cotangents import clear, present, require_fitting
from activerules.numba_ext.split.forms import read_kinds, wrong_tape
from activerules.numba_ext.split.pullback import bind, data_of
from activerules.numba_ext.split.split_results import has_shadow, read_result
from activerules.rules.pattern import type_name
from activerules.rules.written import by_name, function_from, item_by_item, tuple_of
from activerules.values.kinds import is_number, is_typed_number_list, optional_leaf, returned_type
from activerules.values.layout import CONSTANT, layout_of

_IS_VIEW = (
    "inside a function that is differentiated, autodiff_thunk is not yet supported for a function "
    "that returns memory of its arguments: let it return a copy, x[1:].copy() for x[1:]"
)


# --- vjp ---


def nested_vjp_stub(dispatcher: Any, argtypes: Sequence[Any]) -> Any:
    """The compiled function that returns `(out, pullback)` in code that is differentiated."""
    plain_types = tuple(map(runtime_type, argtypes))
    call_arguments.parameter_names(dispatcher, len(plain_types))
    indices = [k for k, ty in enumerate(plain_types) if layout_of(ty).activity != "const"]
    return _once(_vjp_stub, dispatcher, len(plain_types), tuple(indices))


def _vjp_stub(dispatcher: Any, count: int, indices: tuple[int, ...]) -> Any:
    names = [f"x{k}" for k in range(count)]
    again = "".join(f"copy_arrays(data[{k}]), " for k in range(count))
    entries = [f"derivatives[{indices.index(k)}]" if k in indices else "None" for k in range(count)]
    phi = _weighted(dispatcher, count)
    gradient = GradientFunction(phi, indices, options={}).dispatcher if indices else None
    lines = ["data, states = data_of(pullback)"]
    if indices:
        lines += _with_states(f"derivatives = gradient({again}cotangent)")
    lines.append(f"return {tuple_of(entries)}")
    apply = _compile(dispatcher, "apply", ["pullback", "cotangent"], lines, gradient=gradient)
    lines = [
        f"data = {tuple_of(f'copy_arrays({name})' for name in names)}",
        f"states = states_if_drawn(function, {tuple_of(names)})",
        f"out = require_value(function({', '.join(names)}))",
        "return out, bind(apply, (data, states))",
    ]
    return _compile(dispatcher, "vjp", names, lines, function=dispatcher, apply=Stub(apply))


def _with_states(*lines: str) -> list[str]:
    """Lines that run the function again, between others that let it draw the same random numbers as
    in the run before which `states` were kept.
    """
    return ["now = exchange_states(states)", *lines, "exchange_states(now)"]


def _weighted(dispatcher: Any, count: int) -> Any:
    """The function `(x…, cotangent) -> <cotangent, f(x…)>`."""
    names = ", ".join(f"x{k}" for k in range(count))
    parameters = [*(f"x{k}" for k in range(count)), "cotangent"]
    lines = [f"return inner_product(cotangent, require_value(function({names})))"]
    return _compile(dispatcher, "weighted", parameters, lines, function=dispatcher)


# --- autodiff_thunk ---


def recording(typing_context: TypingContext, call: NestedHalf) -> Any:
    """The compiled function that returns `(tape, primal, shadow)`; the tape is a tuple of copies,
    the shadow, a flag that is set once it is used, and the states to draw random numbers from.

    A function that returns memory of its arguments is refused at run time.
    """
    plan, _ = _read_split(typing_context, call, call.argtypes)
    return _once(_record_stub, *plan)


def _record_stub(
    dispatcher: Any, split_spec: SplitSpec, activities: tuple[str, ...], width: int | None
) -> Any:
    names = names_of(activities)
    values = [
        name if kind is Const else f"{name}.val"
        for name, kind in zip(names, split_spec.arguments, strict=True)
    ]
    shadowed = has_shadow(split_spec.result)
    primal = "out" if split_spec.wants_primal else "None"
    shadow = "shadow_of(out)" if width is None else f"({'shadow_of(out), ' * width})"
    lines = [
        f"data = {tuple_of(f'copy_arrays({value})' for value in values)}",
        f"states = states_if_drawn(function, {tuple_of(values)})",
        f"out = require_value(function({', '.join(values)}))",
        *(f"require_no_alias(out, {value})" for value in values if shadowed),
        f"shadow = {shadow if shadowed else 'None'}",
        "used = np.zeros(1, np.int64)",
        f"return (data, shadow, used, states), {primal}, shadow",
    ]
    return _compile(dispatcher, "record", names, lines, function=dispatcher)


def playing(typing_context: TypingContext, call: NestedHalf) -> Any:
    """The compiled function that replaces the reverse; the last two arguments are the cotangent (or
    None) and the tape.
    """
    *annotated, dret, tape = map(runtime_type, call.argtypes)
    plan, result = _read_split(typing_context, call, annotated)
    _, split_spec, _, width = plan
    if not isinstance(tape, types.BaseTuple) or len(tape) != 4:
        raise wrong_tape(tape, call.function)
    if split_spec.result in (Active, MixedDuplicated):
        require_fitting(result if width is None else types.UniTuple(result, width), dret)
    return _once(_play_stub, *plan)


def _play_stub(
    dispatcher: Any, split_spec: SplitSpec, activities: tuple[str, ...], width: int | None
) -> Any:
    """The function that calls the gradient, once per lane of a batch."""
    names = names_of(activities)
    seeded = split_spec.result is not Const

    def call(lane: str, data: str) -> str:
        arguments = [
            f"{kind.__name__}({data.format(k)}"
            f"{f', {_shadow(split_spec, k, lane)}' if kind not in (Active, Const) else ''})"
            for k, kind in enumerate(one_lane(split_spec).arguments)
        ]
        if seeded:
            cotangent = f"dret{lane}"
            if split_spec.result is not Active:
                given = cotangent if split_spec.result is MixedDuplicated else f"shadow{lane}"
                cotangent = f"completed({given}, shadow{lane})"
            arguments.append(f"Const({cotangent})")
        return f"autodiff(mode, target, {', '.join(['Active' if seeded else 'Const', *arguments])})"

    lanes = range(width or 1)
    # each lane runs the function, which may write into its arguments
    data = "copy_arrays(data[{}])" if len(lanes) > 1 else "data[{}]"
    calls = [
        f"derivatives{lane} = {call('' if width is None else f'[{lane}]', data)}" for lane in lanes
    ]
    items = [
        tuple_of(f"derivatives{lane}[{k}]" for lane in lanes)
        if width is not None and kind is Active
        else f"derivatives0[{k}]"
        for k, kind in enumerate(split_spec.arguments)
    ]
    lines = [
        "data, shadow, used, states = tape",
        "if used[0] != 0:",
        "    raise TapeError('a tape is used a second time: its reverse has run')",
        "used[0] = 1",
        *(line for call in calls for line in _with_states(call)),
        *["clear(shadow)"] * has_shadow(split_spec.result),
        f"return {tuple_of(items)}",
    ]
    target = _weighted(dispatcher, len(names)) if seeded else dispatcher
    mode = Mode("reverse", options=split_spec.options - {"runtime_activity"})
    return _compile(dispatcher, "play", [*names, "dret", "tape"], lines, target=target, mode=mode)


def _shadow(split_spec: SplitSpec, k: int, lane: str) -> str:
    """The shadow of an argument; it is compared with the argument's own memory, not with the copy,
    to see whether the argument is constant.
    """
    shadow = f"a{k}.dval{lane}"
    compared = "runtime_activity" in split_spec.options
    return f"zero_where_same(a{k}.val, {shadow})" if compared else shadow


def _read_split(
    typing_context: TypingContext, call: NestedHalf, args: Sequence[Any]
) -> tuple[tuple[Any, SplitSpec, tuple[str, ...], int | None], Any]:
    """The function, the specification, the activities of its arguments and, of a batch, the width;
    and the type of the result.
    """
    split_spec, dispatcher = call.spec, dispatcher_of_type(call.function)
    arguments = read_kinds(split_spec, dispatcher, [runtime_type(ty) for ty in args])
    result = returned_type(returned_by(typing_context, dispatcher, arguments))
    width = width_of([a.name for a in arguments], args) if is_batched(args) else None
    activities = tuple(a.activity for a in arguments)
    return (dispatcher, read_result(split_spec, dispatcher, result), activities, width), result


# --- what the stubs call ---


_UNCHANGING = (types.Number, *CONSTANT)


@chosen_by_types
def copy_arrays(x):
    """A copy of the arrays in a value, with their strides, and of what has no derivatives."""
    from activerules.numba_ext.rules.objects import can_be_copied  # late: imports much

    if isinstance(x, types.BaseTuple):
        return item_by_item(x, "x", "copy_arrays(x[{i}])", _SCOPE, module=__name__)
    if isinstance(x, _UNCHANGING):
        return lambda x: x
    if is_typed_number_list(x):
        return lambda x: typed_list_of(array_of(x))
    is_constant = not layout_of(x).numbers.any
    if isinstance(x, types.Array):
        if is_constant or is_number(x.dtype):
            return lambda x: copy_in_place(x, x)
    elif is_constant and can_be_copied(x) and not isinstance(x, types.List | types.Set):
        return lambda x: copied(x)
    raise NotYetSupported(
        f"{type_name(x)} in a call of vjp, of a thunk or of a batch, inside a function that is "
        "differentiated",
        why="its arguments are copied there",
        instead=["autodiff or grad, which copy nothing"],
    )


@chosen_by_types
def shadow_of(y):
    """A result with zeros in place of its arrays, and everything else unchanged."""
    if isinstance(y, types.BaseTuple):
        return item_by_item(y, "y", "shadow_of(y[{i}])", _SCOPE, module=__name__)
    if optional_leaf(y) is not None:
        return lambda y: None if y is None else make_zero(present(y))
    return lambda y: make_zero(y)


@chosen_by_types
def require_value(y):
    """The result of a function; raises if it is None, which has no derivative."""
    if returned_type(y) == y:
        return lambda y: y

    def impl(y):
        if y is None:
            raise NotAFloatReturn(RETURNED_NONE)
        return present(y)

    return impl


@chosen_by_types
def completed(cotangent, shadow):
    """The cotangent, where None stands for the array that an optional part of the shadow holds; an
    array without entries if that is None, too.
    """
    if isinstance(shadow, types.BaseTuple):
        item = "completed(cotangent[{i}], shadow[{i}])"
        return item_by_item(shadow, "cotangent, shadow", item, _SCOPE, module=__name__)
    if not isinstance(optional_leaf(shadow), types.Array):
        return lambda cotangent, shadow: cotangent
    if cotangent != types.none:
        return lambda cotangent, shadow: (
            completed(None, shadow) if cotangent is None else present(cotangent)
        )
    shape, dtype = (0,) * shadow.type.ndim, shadow.type.dtype
    return lambda cotangent, shadow: np.empty(shape, dtype) if shadow is None else present(shadow)


@chosen_by_types
def inner_product(cotangent, y):
    """<cotangent, y>, a real number: Re of the sum of conj(cotangent) y."""
    require_fitting(y, cotangent)
    if optional_leaf(y) is not None:
        return _inner_product_of_optional(cotangent)
    if isinstance(y, types.BaseTuple):
        terms = " + ".join(f"inner_product(cotangent[{k}], y[{k}])" for k in range(len(y)))
        return _source(f"def impl(cotangent, y): return {terms or '0.0'}")
    if isinstance(y, types.Array) and is_number(y.dtype):
        return _inner_product_of_vectors if y.ndim == 1 else _inner_product_of_arrays
    if isinstance(y, types.Complex):
        return lambda cotangent, y: cotangent.real * y.real + cotangent.imag * y.imag
    if is_number(y):
        return lambda cotangent, y: cotangent * y
    return lambda cotangent, y: 0.0


def _inner_product_of_optional(cotangent: Any) -> Any:
    if cotangent == types.none:
        return lambda cotangent, y: 0.0

    def impl(cotangent, y):
        if cotangent is None:
            return 0.0
        if y is None:
            if np.size(present(cotangent)) > 0:
                raise ShadowMismatch("a cotangent is given for what is None in the result")
            return 0.0
        return inner_product(present(cotangent), present(y))

    return impl


def _inner_product_of_vectors(cotangent, y):
    if cotangent.shape != y.shape:
        raise ShadowMismatch("the cotangent does not have the shape of the result")
    total = 0.0
    for i in range(y.size):
        total += inner_product(cotangent[i], y[i])
    return total


def _inner_product_of_arrays(cotangent, y):
    if cotangent.shape != y.shape:
        raise ShadowMismatch("the cotangent does not have the shape of the result")
    total = 0.0
    for index in np.ndindex(y.shape):
        total += inner_product(cotangent[index], y[index])
    return total


@chosen_by_types
def require_no_alias(result, other):
    """Raise if an array in `result` shares memory with one in `other`."""
    if isinstance(result, types.BaseTuple):
        return _each("require_no_alias(result[{}], other)", result)
    if isinstance(other, types.BaseTuple):
        return _each("require_no_alias(result, other[{}])", other)
    if isinstance(result, types.Array) and isinstance(other, types.Array):
        return apart(_IS_VIEW, NotYetSupported)
    if isinstance(optional_leaf(result), types.Array) and isinstance(other, types.Array):

        def if_present(result, other):
            if result is not None:
                require_no_alias(present(result), other)

        return if_present
    return lambda result, other: None


def _each(form: str, ty: Any) -> Any:
    lines = "; ".join(form.format(k) for k in range(len(ty)))
    return _source(f"def impl(result, other): {lines or 'pass'}")


def _source(source: str) -> Any:
    return function_from(source, "impl", _SCOPE, module=__name__)


def _compile(
    dispatcher: Any, name: str, names: Sequence[str], lines: Sequence[str], **more: Any
) -> Any:
    return in_place_of(dispatcher, name, names, lines, {**_SCOPE, **more})


def _once(make: Any, dispatcher: Any, *plan: Any) -> Any:
    return COMPILED.get(dispatcher, (make, plan), lambda: make(dispatcher, *plan))


_SCOPE = {
    **by_name(Active, Const, Duplicated, DuplicatedNoNeed, MixedDuplicated, TapeError, autodiff),
    **by_name(bind, clear, completed, copy_arrays, data_of, inner_product),
    **by_name(
        exchange_states,
        states_if_drawn,
        require_no_alias,
        require_value,
        shadow_of,
        zero_where_same,
    ),
    "np": np,
}
