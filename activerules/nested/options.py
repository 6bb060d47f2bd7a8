"""Options of a mode in code that is itself differentiated: calls are rewritten without them.

holomorphic        f'(z) is the conjugate of the gradient of Re f, by the equations of Cauchy
                   and Riemann
runtime_activity   a shadow that is the argument's own memory becomes one of zeros, as outside
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit, types

from activerules.annotations.activity import (
    Active,
    Annotation,
    Duplicated,
    DuplicatedNoNeed,
    MixedDuplicated,
)
from activerules.annotations.signature import Mode
from activerules.annotations.values import make_zero
from activerules.api.autodiff import autodiff
from activerules.api.list_arguments import array_of, typed_list_of
from activerules.nested.read_calls import autodiff_of, names_of, returned_by
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.nested_forms import REWRITTEN, NestedCall
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.made_once import NO_C_WRAPPER, MadeOnce, compiled_lines
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.rules.written import by_name, function_from, tuple_of
from activerules.values.kinds import is_number, is_typed_number_list
from activerules.values.leaf_texts import TupleTexts

_real_parts = MadeOnce()
_SHADOWED: tuple[type[Annotation], ...] = (Duplicated, DuplicatedNoNeed, MixedDuplicated)


def call_without_options(typing_context: TypingContext, call: NestedCall) -> Any:
    """The compiled function that replaces a call with options of `REWRITTEN`."""
    dispatcher, mode, marker, annotated = call.dispatcher, call.mode, call.marker, call.argtypes
    texts = TupleTexts()
    passed = parameters = names_of(annotated)
    result, lines = "result", list[str]()
    target, dtype = dispatcher, None
    if "runtime_activity" in mode.options:
        passed = [_real_argument(k, ty) for k, ty in enumerate(annotated)]
    if "holomorphic" in mode.options:
        dtype = _require_holomorphic(typing_context, dispatcher, annotated)
        target = real_part(dispatcher, len(annotated), with_value=mode.returns_primal)
        entries = [_conjugate(texts, k, ty) for k, ty in enumerate(annotated)]
        result = tuple_of(entries)
        if mode.returns_primal:
            lines.append("value = np.zeros(1, dtype)")
            passed = [*passed, "Duplicated(value, np.zeros(1, dtype))"]
            result = f"({result}, value[0])"
    lines += [f"result = {autodiff_of(marker, passed)}", f"return {result}"]
    scope: dict[str, Any] = {
        **texts.classes,
        **by_name(*_SHADOWED, autodiff, zero_where_same),
        "dtype": dtype,
        "function": target,
        "marker": marker,
        "mode": _rewritten(mode),
        "np": np,
    }
    return compiled_lines(dispatcher, "call", parameters, lines, scope, "nested", call)


def _real_argument(k: int, ty: Any) -> str:
    """The source text of an annotated argument, with the shadow it has in the derivative."""
    if isinstance(ty, AnnotationType) and ty.kind in _SHADOWED:
        return f"{ty.kind.__name__}(a{k}.val, zero_where_same(a{k}.val, a{k}.dval))"
    return f"a{k}"


def _rewritten(mode: Mode) -> Mode:
    """The mode of the call without these options; the value of Re f is not that of f."""
    returns_primal = mode.returns_primal and "holomorphic" not in mode.options
    return replace(mode, options=mode.options - REWRITTEN, returns_primal=returns_primal)


def _require_holomorphic(
    typing_context: TypingContext, dispatcher: Any, annotated: Sequence[Any]
) -> Any:
    """The type of the result; raises unless arguments and result are complex."""
    names = call_arguments.parameter_names(dispatcher, len(annotated))
    arguments = checks.read_arguments(names, annotated)
    with error_context.of_call(dispatcher):
        checks.require_holomorphic(arguments)
        result = returned_by(typing_context, dispatcher, arguments)
        checks.require_float_return(dispatcher, result, holomorphic=True)
    return result


def _conjugate(texts: TupleTexts, k: int, ty: Any) -> str:
    """The derivative with respect to an argument: the conjugate gradient, None for a constant."""
    if not isinstance(ty, AnnotationType) or ty.kind is not Active:
        return "None"
    return texts.rebuilt(
        ty.val,
        lambda x: f"np.conj(result[{k}]{x.path})" if is_number(x.numba_type) else "None",
    )


def real_part(dispatcher: Any, count: int, *, with_value: bool) -> Any:
    """`(x…) -> Re f(x…)`; with `with_value`, `(x…, value)`, which stores f(x…) in an array."""

    def make() -> Any:
        names = ", ".join(f"x{k}" for k in range(count))
        source = f"def real_part({names}): return function({names}).real"
        if with_value:
            source = f"def real_part({names}, value):\n value[0] = function({names})\n"
            source += " return value[0].real"
        function = function_from(source, "real_part", {"function": dispatcher}, module=__name__)
        function.__name__ = dispatcher.py_func.__name__
        return njit(**NO_C_WRAPPER)(function)

    return _real_parts.get(dispatcher, (count, with_value), make)


@chosen_by_types
def zero_where_same(x, shadow):
    """The shadow of `x`, with new zeros in place of arrays that are those of `x` itself."""
    if isinstance(x, types.BaseTuple):
        texts = TupleTexts()
        items = texts.rebuilt(x, lambda leaf: f"zero_where_same(x{leaf.path}, shadow{leaf.path})")
        scope = {**texts.classes, "zero_where_same": zero_where_same}
        return function_from(f"def impl(x, shadow): return {items}", "impl", scope, module=__name__)
    if isinstance(x, types.Array) and isinstance(shadow, types.Array):

        def impl(x, shadow):
            if x.size > 0 and x.ctypes.data == shadow.ctypes.data:
                return make_zero(shadow)
            return shadow

        return impl
    if is_typed_number_list(x):

        def of_list(x, shadow):
            return typed_list_of(np.zeros_like(array_of(x))) if x is shadow else shadow

        return of_list
    return lambda x, shadow: shadow
