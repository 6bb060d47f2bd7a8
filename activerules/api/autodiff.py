"""`autodiff`: the derivative of a function at annotated arguments, from Python and inside `@njit`.

A call from Python runs a small compiled entry, one per function, mode and return activity. The
entry is recompiled when rules have been registered since, and when a call first needs the version
for overlapping arguments. Everything else happens where the entry, or the user's own compiled
function, is typed: see `numba_ext.calls.intrinsics`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from activerules.annotations.activity import Annotation, is_annotation_class
from activerules.annotations.signature import Mode, PlainSpec, no_mode
from activerules.errors import ShadowMismatch
from activerules.numba_ext.calls.emitter import is_batched
from activerules.numba_ext.calls.error_context import run_compiled, say_shapes_of_shadow
from activerules.numba_ext.calls.forward_forms import forward_form
from activerules.numba_ext.calls.intrinsics import (
    autodiff_form,
    compiled_only,
    dispatcher_of_type,
    give_compiled_form,
    ordinary_form,
)
from activerules.numba_ext.calls.nested_forms import REWRITTEN, NestedCall, nested_form
from activerules.numba_ext.calls.plain import Kinds, plain_form, spread
from activerules.numba_ext.codegen.entry_points import ENTRY_POINT
from activerules.numba_ext.codegen.made_once import COMPILED
from activerules.numba_ext.codegen.on_disk import compiled_stub
from activerules.numba_ext.codegen.stubs import Stub
from activerules.numba_ext.codegen.types import ModeType, read_marker, runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.split.batch import batch_form
from activerules.numba_ext.target.derivative import (
    ArgumentsOverlap,
)
from activerules.numba_ext.target.dispatchers import dispatcher_of, inherited
from activerules.rules.written import replacement_of

_Key = tuple[Mode, type[Annotation] | None, Kinds]


def autodiff(mode: Mode, function: Callable[..., Any], *args: Any) -> Any:
    """Differentiate `function` at annotated arguments.

    Arguments
        mode      `Reverse`, `ReverseWithPrimal`, `Forward` or `ForwardWithPrimal`.
        function  an `@njit` function or a plain one that Numba can compile in nopython mode.
        args      one annotation per argument of the function; a bare value is Const. The activity
                  of the return value, a class, may precede them. In reverse mode: `Active` for a
                  float (the default), `Const` for a function that writes its result into an
                  argument. In forward mode: `Duplicated` (the default) or `Const`.

    Returns
        Reverse            a tuple, one entry per argument: the derivative where it is Active, None
                           elsewhere. Derivatives with respect to Duplicated arrays are *added to*
                           their shadows.
        ReverseWithPrimal  (that tuple, what the function returned).
        Forward            the tangent of what the function returns, of the same type (None in place
                           of integers); None if the return is Const. `Duplicated(x, dx)` is a value
                           of any type with its tangent: float, tuple, array. Afterwards the shadows
                           of arrays hold the tangents of their new contents. With
                           `BatchDuplicated(x, (dx1, …, dxN))` the result is a tuple of N tangents.
        ForwardWithPrimal  (that tangent, what the function returned).

    Raises
        ShadowMismatch     a shadow differs from its primal in dtype, shape or strides, or overlaps
                           it.
        ActivityError      reverse: an array or an integer is marked Active, or a float Duplicated;
                           forward: anything is marked Active; no argument is annotated at all.
        BatchWidthMismatch the arguments of one call have different numbers of shadows or tangents.
        ArityError         the number of arguments is not the function's.
        NotCompilable      Numba cannot compile the function; its error is the `__cause__`.
        NotAFloatReturn    an Active return is not one float.
        MemoryError        the tape does not fit into memory; shadows are unchanged.
        Exceptions of the function itself pass unchanged, and reverse mode leaves shadows unchanged.
        Where an exception makes Numba leak arrays, a derivative leaks as many; forward mode, that
        many more for each tangent.

    >>> autodiff(Reverse, lambda x: x * x, Active(3.0))
    (6.0,)
    >>> autodiff(Forward, lambda x: x * x, Duplicated(3.0, 1.0))
    6.0
    """
    result = args[0] if args and is_annotation_class(args[0]) else None
    annotated = args if result is None else args[1:]
    kinds, fields = spread(annotated)
    key = mode, result, kinds
    entry = COMPILED.find(function, key) or _make_entry(function, key, len(fields), deferred=True)
    try:
        try:
            return run_compiled(entry, *fields)
        except ArgumentsOverlap:
            pass  # nothing has run; what the next entry raises has no context
        return run_compiled(_make_entry(function, key, len(fields), deferred=False), *fields)
    except ShadowMismatch as error:
        say_shapes_of_shadow(error, annotated)
        raise


def _mode_form(typing_context, mode, function, *args):
    """The compiled form of `autodiff`. Its parameters are those of a call, as Numba sees it."""
    return _entry_form(typing_context, mode, function, *args)


def _entry_form(typing_context, mode, function, *args, deferred: bool = False):
    """Like `_mode_form`, for entries, which may defer the version for overlapping arguments
    (`Versions.deferred`).
    """
    if not isinstance(mode, ModeType):
        raise no_mode(None, function.value if isinstance(function, ModeType) else None)
    mode.value.require_supported()
    args = tuple(map(runtime_type, args))
    forward = mode.value.direction == "forward"
    if compiles_for_derivative() and _is_rewritten(mode.value, args):
        if not forward and (form := ordinary_form(mode, function, args)):
            return form
        marker, annotated = read_marker(args)
        call = NestedCall(dispatcher_of_type(function), tuple(annotated), mode.value, marker)
        return nested_form(typing_context, call, (mode, function), args)
    if forward:
        return forward_form(mode, function, args)
    return (batch_form if is_batched(args) else autodiff_form)(mode, function, args, deferred)


def _is_rewritten(mode: Mode, args: Sequence[Any]) -> bool:
    """Whether a call inside a function that is differentiated is rewritten.

    Forward derivatives of one tangent are not: they can be differentiated as they are.
    """
    return mode.direction != "forward" or is_batched(args) or bool(mode.options & REWRITTEN)


give_compiled_form(autodiff, _mode_form)


@compiled_only
def _autodiff_of_fields(typing_context, spec, function, *fields):
    """`autodiff` of arguments given as the fields of annotations."""
    return plain_form(_entry_form, typing_context, spec, function, fields)


def _make_entry(function: Any, key: _Key, count: int, *, deferred: bool) -> Any:
    """Make the compiled entry, unless another thread has made it.

    An entry with both versions replaces the one that deferred the second.
    """
    mode = key[0]
    if not isinstance(mode, Mode):
        raise no_mode(mode, function)
    mode.require_supported()
    dispatcher = dispatcher_of(function)

    def make() -> Any:
        return make_entry(
            _autodiff_of_fields, PlainSpec(*key, deferred=deferred), dispatcher, count
        )

    if deferred:
        return COMPILED.get(dispatcher, key, make)
    return COMPILED.put(dispatcher, key, make())


def make_entry(form: Callable[..., Any], spec: PlainSpec, dispatcher: Any, count: int) -> Any:
    """The compiled function `(*fields) -> form(spec, dispatcher, *fields)`, of `count` fields.

    Its parameters have names, as Numba is slow to compile `*args`, a tuple of arrays. It is stored
    on disk, and releases the GIL, if the function is and does.
    """
    names = ", ".join(f"x{k}" for k in range(count))
    options, plain = inherited(dispatcher, {}), dispatcher.py_func
    source = f"def entry({names}): return form(spec, dispatcher, {names})"
    scope = {"form": form, "spec": spec, "dispatcher": Stub(dispatcher)}
    entry = replacement_of(plain, source, scope, name="entry")
    entry.__qualname__ = f"{plain.__qualname__}.{form.__name__}"
    return compiled_stub(entry, dispatcher, options, spec, **ENTRY_POINT)
