"""`jvp`: a function and its derivative along a direction, by forward mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np
from numba import njit, types

from activerules.annotations.trees import NUMBERS, are_flat, flattened, restored
from activerules.annotations.values import laid_like
from activerules.api.derived import R
from activerules.api.jacobian_blocks import copy_of
from activerules.api.value_and_aux import constant_aux
from activerules.errors import ShadowMismatch
from activerules.numba_ext.calls.call_arguments import parameter_names
from activerules.numba_ext.calls.checks import require_float_return
from activerules.numba_ext.calls.error_context import run_compiled, say_shapes
from activerules.numba_ext.calls.forward_forms import jvp_form, require_pairs
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type, give_compiled_form
from activerules.numba_ext.calls.nested_forms import calling_with
from activerules.numba_ext.codegen.arity import first_names, free_name
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.entry_points import ENTRY_POINT
from activerules.numba_ext.codegen.made_once import COMPILED, LastMade, MadeOnce, compiled_lines
from activerules.numba_ext.codegen.on_disk import compiled_stub
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.target.dispatchers import (
    dispatcher_of,
    inherited,
    require_known,
    with_options,
)
from activerules.rules.written import function_from, replacement_of
from activerules.values.leaf_texts import TupleTexts, leaves_at

_along = MadeOnce()


@overload
def jvp(
    function: Callable[..., R],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    has_aux: Literal[False] = False,
    **options: Any,
) -> tuple[R, Any]: ...


@overload
def jvp(
    function: Callable[..., tuple[R, Any]],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    has_aux: Literal[True],
    **options: Any,
) -> tuple[R, Any, Any]: ...


def jvp(
    function: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    has_aux: bool = False,
    **options: Any,
) -> Any:
    """The value of a function and its derivative along a direction.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile.
        primals   a tuple with the arguments of the function.
        tangents  a tuple with one tangent per argument, of its type and shape, or None for an
                  argument that is to be constant. Integers and strings are constant in any case:
                  the tangent of an integer is None or zero, in a tuple also the integer itself.
                  Inside a compiled function an array must also have the strides of its primal.
        has_aux=True   the function returns `(value, aux)`, where aux is not differentiated, and the
                  result is `(value, tangent, aux)`; not in compiled functions.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        `(out, tangent)`; the tangent has the type of `out`, with None in place of integers. Where
        the function writes into an array, the tangent of what it writes is written into the tangent
        of the array.

    Raises
        ShadowMismatch, ActivityError, ArityError, and what `autodiff` raises.

    Cost      at most a small multiple of the function itself; no tape.

    >>> jvp(lambda x, y: x * y, (3.0, 2.0), (1.0, 0.5))
    (6.0, 3.5)
    """
    if has_aux:
        target = dispatcher_of(function)
        parted = constant_aux(target, len(primals))
        options = inherited(target, options)
        (value, aux), (tangent, _) = jvp(parted, primals, tangents, **options)
        return value, tangent, aux
    require_pairs(primals, tangents, tuple)
    entry = None if options else _entries.find(function, len(primals))
    if entry is None:
        entry = _entry_of(function, len(primals), options)
    values = primals + tangents
    if are_flat(values) and (
        NUMBERS.issuperset(map(type, tangents)) or all(map(_is_laid_like, tangents, primals))
    ):
        return _run(function, entry, primals, tangents)
    primals, tangents = flattened((primals, tangents))
    copies: list[tuple[np.ndarray, np.ndarray]] = []
    laid = laid_like(tangents, primals, copies)
    arrays = [*_arrays_in(primals), *_arrays_in(tangents)]
    for _, tangent in copies:
        if sum(np.shares_memory(tangent, array) for array in arrays) > 1:  # itself is one
            laid, copies = tangents, []  # refused, as every shadow that overlaps another array
            break
    result = _run(function, entry, primals, laid)
    for fresh, tangent in copies:
        if tangent.flags.writeable:
            tangent[...] = fresh
    return restored(result)


def _run(function: Any, entry: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    try:
        return run_compiled(entry, *primals, *tangents)
    except ShadowMismatch as error:
        names = parameter_names(dispatcher_of(function), len(primals))
        for name, x, tangent in zip(names, primals, tangents, strict=True):
            say_shapes(error, f"the tangent of `{name}`", tangent, x)
        raise


def _is_laid_like(v: Any, x: Any) -> bool:
    """Whether `laid_like` has nothing to copy, with the fewest steps for numbers and arrays."""
    if type(v) is np.ndarray and type(x) is np.ndarray:
        return v.strides == x.strides
    if type(v) is tuple and type(x) is tuple:
        return all(map(_is_laid_like, v, x))
    return not isinstance(v, tuple | np.ndarray)


def _arrays_in(x: Any) -> Iterator[np.ndarray]:
    if isinstance(x, tuple):
        for part in x:
            yield from _arrays_in(part)
    elif isinstance(x, np.ndarray):
        yield x


def _jvp_form(typing_context, function, primals, tangents):
    """Like `jvp_form`, with copies of tangents that are constant arrays, since the function may
    write into its arguments or return them.
    """
    leaves = list(leaves_at("tangents", tangents))
    if not any(_is_constant_array(leaf.numba_type) for leaf in leaves):
        return jvp_form(typing_context, function, primals, tangents)
    texts = TupleTexts()
    copies = texts.rebuilt(
        tangents,
        lambda x: f"copy_of({x.text})" if _is_constant_array(x.numba_type) else x.text,
        "tangents",
    )
    dispatcher = dispatcher_of_type(function)
    scope = {**texts.classes, "copy_of": copy_of, "function": dispatcher, "jvp": jvp}
    callee = compiled_lines(
        dispatcher,
        "call",
        ["primals", "tangents"],
        [f"return jvp(function, primals, {copies})"],
        scope,
        *("jvp", primals, tangents),
    )
    return calling_with(typing_context, callee, (function,), (primals, tangents))


def _is_constant_array(ty: Any) -> bool:
    return isinstance(ty, types.Array) and not ty.mutable


give_compiled_form(jvp, _jvp_form)


# The entries of calls without options, by function and number of arguments.
_entries = LastMade()


def _entry_of(function: Any, count: int, options: dict[str, Any]) -> Any:
    """The compiled entry for calls of one function with `count` arguments, followed by their
    tangents. It is stored on disk if the function is.
    """
    require_known(options, instead="among the primals, which have no names")
    target, inherits = with_options(function, options)

    def make() -> Any:
        primals = [f"x{k}, " for k in range(count)]
        tangents = [f"t{k}, " for k in range(count)]
        source = (
            f"def call({''.join(primals + tangents)}):\n"
            f"    return jvp(function, ({''.join(primals)}), ({''.join(tangents)}))"
        )
        scope = {"jvp": jvp, "function": Stub(target)}
        call = replacement_of(target.py_func, source, scope, name="call")
        call.__qualname__ = f"{target.py_func.__qualname__}.jvp"
        return compiled_stub(call, target, inherits, **ENTRY_POINT)

    entry = COMPILED.get(target, ("jvp", count, repr(sorted(inherits.items()))), make)
    return entry if options else _entries.put(function, count, entry)


@chosen_by_types
def _along_float(function, found):
    """The tangent in what `jvp` found; the function must return one float."""
    require_float_return(dispatcher_of_type(function), found[0])
    return lambda function, found: found[1]


def along(dispatcher: Any, argnum: int, count: int) -> Any:
    """The function `(*args, v) -> f'(args) v`, where `v` is a tangent of argument `argnum` of
    `count`. Second derivatives are gradients of it.
    """

    def make() -> Any:
        names = first_names(dispatcher, count)
        extra = free_name(f"dot_{names[argnum]}", names)
        tangents = [extra if k == argnum else "None" for k in range(len(names))]
        source = (
            f"def along({', '.join(names)}, {extra}):\n"
            f"    return _along_float(_function, _jvp(_function, ({', '.join(names)},), "
            f"({', '.join(tangents)},)))\n"
        )
        plain = dispatcher.py_func
        directional = function_from(
            source,
            "along",
            {"_jvp": jvp, "_function": dispatcher, "_along_float": _along_float},
            module=__name__,
            like=plain,
        )
        directional.__name__ = plain.__name__  # errors show the user's function
        return njit(directional)

    return _along.get(dispatcher, ("along", argnum, count), make)
