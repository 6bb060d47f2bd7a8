"""Functions of typed lists of numbers, as functions of arrays.

Jacobians, and gradients that have rules of their own, work on arrays and numbers. `of_arrays`
returns the function that takes arrays and builds its lists from them; `array_of`, `typed_list_of`
and `put_into` convert before and after a call of it.
"""

# pyright: reportCallIssue=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numba.typed import List

from activerules.errors import ShadowMismatch
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.calls.nested_forms import calling
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.made_once import NO_C_WRAPPER, MadeOnce, compiled_lines
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.types import runtime_type
from activerules.rules.written import definition, function_from
from activerules.values.kinds import is_number_list

_of_arrays = MadeOnce()
_LENGTH = "the function changes the length of a list it was given"


def of_arrays(dispatcher: Any, argtypes: Sequence[Any], written: Sequence[int] = ()) -> Any:
    """The function with arrays in place of those arguments whose types, of `argtypes`, are lists.

    The arrays of the arguments in `written` receive what the function leaves in the lists.
    """
    names = [f"x{k}" for k, _ in enumerate(argtypes)]
    lines, passed = [], list(names)
    for k, ty in enumerate(argtypes):
        if is_number_list(ty):
            form = "typed" if isinstance(ty, types.ListType) else "reflected"
            lines.append(f"l{k} = {form}_list_of(x{k})")
            passed[k] = f"l{k}"
    lines += [
        f"result = function({', '.join(passed)})",
        *(f"put_into(x{k}, l{k})" for k in written),
        "return result",
    ]

    def make() -> Any:
        source = definition("of_arrays", names, lines)
        plain = dispatcher.py_func
        on_arrays = function_from(
            source,
            "of_arrays",
            {
                "function": dispatcher,
                "typed_list_of": typed_list_of,
                "reflected_list_of": _reflected_list_of,
                "put_into": put_into,
            },
            module=__name__,
            like=plain,
        )
        on_arrays.__name__ = plain.__name__  # errors show the user's function
        return njit(**NO_C_WRAPPER)(on_arrays)

    return _of_arrays.get(dispatcher, tuple(lines), make)


def by_arrays(
    typing_context: TypingContext, stub: Any, spec: Any, function: Any, args: Sequence[Any]
) -> Any:
    """The compiled form of a stub for derivatives with respect to lists: it calls the same stub on
    the function of arrays. None if there are no lists among those arguments.
    """
    argtypes = tuple(map(runtime_type, args))
    lists = [ty if k in spec.value.argnums else types.none for k, ty in enumerate(argtypes)]
    if not any(map(is_number_list, lists)):
        return None
    dispatcher = dispatcher_of_type(function)

    names = [f"x{k}" for k, _ in enumerate(argtypes)]
    passed = [
        f"array_of({name})" if is_number_list(ty) else name
        for name, ty in zip(names, lists, strict=True)
    ]
    target = Stub(of_arrays(dispatcher, lists))
    scope = {"array_of": array_of, "stub": stub, "spec": spec.value, "target": target}
    lines = [f"return stub(spec, target, {', '.join(passed)})"]
    callee = compiled_lines(
        dispatcher, "call", names, lines, scope, "of lists", stub, spec.value, argtypes
    )
    return calling(typing_context, callee, (spec, function), args)


# --- called by the generated code ---


@chosen_by_types
def array_of(x):
    """A new array with the items of a list."""
    dtype = x.item_type if isinstance(x, types.ListType) else x.dtype

    def impl(x):
        result = np.empty(len(x), dtype)
        for k in range(len(x)):
            result[k] = x[k]
        return result

    return impl


@njit(**NO_C_WRAPPER)
def shadow_array(x, shadow):
    """A new array with the items of the shadow of a list."""
    if x is shadow:
        raise ShadowMismatch("a list was given as its own shadow")
    return array_of(shadow)


@njit(**NO_C_WRAPPER)
def typed_list_of(x):
    """A new `numba.typed.List` with the items of an array."""
    result = List()
    for k in range(x.size):
        result.append(x[k])
    return result


@njit(**NO_C_WRAPPER)
def _reflected_list_of(x):
    return [x[k] for k in range(x.size)]


@chosen_by_types
def put_into(target, source):  # noqa: ARG001
    """Write the items of `source` into `target`; each is a list or an array, of the same length."""

    def impl(target, source):
        if len(target) != len(source):
            raise ShadowMismatch(_LENGTH)
        for k in range(len(target)):
            target[k] = source[k]

    return impl
