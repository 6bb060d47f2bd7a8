"""`autodiff_thunk`: split mode. The augmented primal now, the reverse later, a tape in between.

Both halves are compiled functions of annotated arguments, callable from Python and inside `@njit`.
`numba_ext.split.forms` implements them.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, Literal

from numba import njit
from numba.extending import typeof_impl

from activerules.annotations.activity import (
    Active,
    Annotation,
    MixedDuplicated,
    is_annotation_class,
)
from activerules.annotations.signature import Mode, PlainSpec, SplitSpec
from activerules.api.autodiff import make_entry
from activerules.errors import ActivityError, ArityError
from activerules.numba_ext.calls import call_arguments, checks
from activerules.numba_ext.calls.error_context import run_compiled
from activerules.numba_ext.calls.intrinsics import compiled_only, give_compiled_form
from activerules.numba_ext.calls.nested_forms import NestedHalf, nested_form
from activerules.numba_ext.calls.plain import Kinds, plain_form, spread
from activerules.numba_ext.codegen.arity import first_names, free_name
from activerules.numba_ext.codegen.entry_points import ENTRY_POINT
from activerules.numba_ext.codegen.made_once import COMPILED
from activerules.numba_ext.codegen.stubs import StubType
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.split.forms import halves_form
from activerules.numba_ext.split.split_batch import playing, recording
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.rules.registry import with_rules
from activerules.rules.written import function_from

_lock = threading.Lock()
_thunks: dict[Any, tuple[SplitHalf, SplitHalf]] = {}


def autodiff_thunk(
    mode: Mode,
    function: Callable[..., Any],
    result: type[Annotation],
    *activities: type[Annotation],
) -> tuple[SplitHalf, SplitHalf]:
    """Return the two halves of the derivative of a function, `(augmented, reverse)`.

    Arguments
        mode        `ReverseSplitNoPrimal` or `ReverseSplitWithPrimal`.
        function    an `@njit` function or a plain one that Numba can compile.
        result      the activity of what it returns: Active for floats (and tuples of them),
                    Duplicated for arrays (and tuples of them), MixedDuplicated for tuples with
                    both, Const for a function that writes its result into an argument.
        activities  the activity of each argument, in order.

    The halves
        tape, primal, shadow = augmented(*annotated)
            primal is None unless the mode asks for it. shadow is the shadow of the result, filled
            with zeros (for a returned view: the same view of the argument's shadow), or None if the
            result is Active or Const. The caller adds the cotangent to it before the reverse runs.
        derivatives = reverse(*annotated, [dret,] tape)
            a tuple, one entry per argument: the derivative where it is Active, None elsewhere.
            `dret` is the cotangent of an Active (or MixedDuplicated) result, of the result's type.
            An entry of it may be None if the entry of the result is None, or its cotangent is zero.

    With BatchDuplicated(x, (dx1, …, dxN)) both halves run once, for N cotangents: `shadow` and
    `dret` are tuples of N, and so is the derivative with respect to an Active argument. If a rule
    in the function keeps a shadow, the reverse runs once per cotangent; the result must then be
    Active or Const.

    A tape is used once, with the arguments it was made from. Between the halves the memory of
    arguments and result may be written, including the arrays, length and keys of objects, lists and
    dictionaries; those of their shadows may not. A tape that is dropped frees itself.

    Raises
        TapeError       a tape is used twice, or with other arguments, or is another function's.
        ActivityError   an activity does not fit its argument or the result.
        ArityError      the number of activities or arguments is not the function's.
        and what `autodiff` raises.

    Cost      memory: the tape. As the arguments may be written between the halves, the tape has
              copies of what the reverse needs of them.

    >>> augmented, reverse = autodiff_thunk(
    ...     ReverseSplitWithPrimal, lambda x: x * x, Active, Active)
    >>> tape, primal, _ = augmented(Active(3.0))
    >>> reverse(Active(3.0), 2.0, tape)
    (12.0,)
    """
    if not isinstance(mode, Mode) or not mode.split:
        raise ActivityError(
            f"{mode} is not a mode of autodiff_thunk",
            instead=["ReverseSplitWithPrimal", "ReverseSplitNoPrimal"],
        )
    for each in (result, *activities):
        if not is_annotation_class(each):
            raise ActivityError(
                f"{each!r} is not an activity",
                instead=["a class: Active, Duplicated, Const, for the result and each argument"],
            )
    target = dispatcher_of(function)
    call_arguments.parameter_names(target, len(activities))
    checks.refuse_holomorphic(mode)
    spec = SplitSpec(result, activities, mode.returns_primal, options=mode.options)
    return thunks(target, spec)


def thunks(target: Any, spec: SplitSpec) -> tuple[SplitHalf, SplitHalf]:
    """The two halves; made once for a function and a specification."""
    with _lock:
        if (target, spec) not in _thunks:
            _thunks[target, spec] = (
                SplitHalf(target, spec, "augmented"),
                SplitHalf(target, spec, "reverse"),
            )
        return _thunks[target, spec]


class SplitHalf:
    """One half of a split derivative; `dispatcher` is the `@njit` function behind it."""

    def __init__(self, target: Any, spec: SplitSpec, half: str) -> None:
        self._target, self._spec, self._half = target, spec, half
        plain = target.py_func
        self.__wrapped__, self.__module__ = plain, plain.__module__
        self.__name__ = self.__qualname__ = f"{half}_{plain.__name__}"
        self._parameters = _parameters(target, spec, half)
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, _POSITIONAL) for name in self._parameters]
        )
        self.__doc__ = f"The {_HALVES[half]} of `{plain.__name__}`; see `autodiff_thunk`."

    @property
    def dispatcher(self) -> Any:
        """The stub, compiled with the rules that are registered now."""
        return COMPILED.get(
            self._target, (self._half, self._spec), lambda: njit(**ENTRY_POINT)(self._stub())
        )

    def __call__(self, *args: Any) -> Any:
        """Run this half; see `autodiff_thunk`."""
        if len(args) != len(self._parameters):
            raise ArityError(
                f"{self.__name__} takes {len(self._parameters)} argument(s), and got {len(args)}",
                instead=[f"{self.__name__}({', '.join(self._parameters)})"],
            )
        if self._half == "reverse" and not _takes_cotangent(self._spec):
            args = (*args[:-1], None, args[-1])
        kinds, fields = spread(args)
        return run_compiled(self._entry(kinds, len(fields)), *fields)

    def _entry(self, kinds: Kinds, count: int) -> Any:
        """The compiled entry for calls from Python with annotations of these kinds."""
        form = _plain_record if self._half == "augmented" else _plain_play
        spec = PlainSpec(self._spec, None, kinds)
        return COMPILED.get(
            self._target, (form, spec), lambda: make_entry(form, spec, self._target, count)
        )

    def __repr__(self) -> str:
        """Return the half, the function and the activities."""
        activities = ", ".join(kind.__name__ for kind in self._spec.arguments)
        return f"<{self.__name__}({activities}) -> {self._spec.result.__name__}>"

    def __reduce__(self) -> Any:
        """Pickle what the halves were made from."""
        return with_rules(_unpickled, (self._target, self._spec, self._half))

    def _stub(self) -> Any:
        names = list(self._parameters)
        passed = list(names)
        if self._half == "reverse" and not _takes_cotangent(self._spec):
            passed.insert(-1, "None")
        form = record if self._half == "augmented" else play
        scope = {"form": form, "spec": self._spec, "target": self._target}
        source = f"def stub({', '.join(names)}): return form(spec, target, {', '.join(passed)})"
        stub = function_from(source, "stub", scope, module=__name__, file=__file__)
        stub.__name__ = stub.__qualname__ = self.__name__
        return stub


def _unpickled(target: Any, spec: SplitSpec, half: str) -> SplitHalf:
    augmented, reverse = thunks(target, spec)
    return augmented if half == "augmented" else reverse


_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY
_HALVES = {
    "augmented": "augmented primal, which returns `(tape, primal, shadow)`,",
    "reverse": "reverse half, which returns the derivatives,",
}


def _parameters(target: Any, spec: SplitSpec, half: str) -> tuple[str, ...]:
    """The names of a half's parameters: the function's, and those of the cotangent and the tape."""
    names = first_names(target, len(spec.arguments))
    if half == "reverse":
        extra = ["dret", "tape"] if _takes_cotangent(spec) else ["tape"]
        names += [free_name(name, names) for name in extra]
    return tuple(names)


def _takes_cotangent(spec: SplitSpec) -> bool:
    return spec.result in (Active, MixedDuplicated)


@typeof_impl.register(SplitHalf)
def _typeof_thunk(value: SplitHalf, _context: Any) -> Any:
    return StubType(value.dispatcher)


@compiled_only
def record(typing_context, spec, function, *args):
    """Run the augmented primal."""
    if compiles_for_derivative():
        return _nested(typing_context, "augmented", spec, function, args)
    return recording(typing_context, spec, function, *args)


@compiled_only
def play(typing_context, spec, function, *args):
    """Run the reverse over a tape."""
    if compiles_for_derivative():
        return _nested(typing_context, "reverse", spec, function, args)
    return playing(typing_context, spec, function, *args)


def _nested(
    typing_context: Any,
    half: Literal["augmented", "reverse"],
    spec: Any,
    function: Any,
    args: tuple[Any, ...],
) -> Any:
    """A half that is differentiated again."""
    call = NestedHalf(half, spec.value, function, args)
    return nested_form(typing_context, call, (spec, function), args)


@compiled_only
def _plain_record(typing_context, spec, function, *fields):
    """`record` of arguments given as the fields of annotations."""
    return plain_form(recording, typing_context, spec, function, fields)


@compiled_only
def _plain_play(typing_context, spec, function, *fields):
    """`play` of arguments given as the fields of annotations."""
    return plain_form(playing, typing_context, spec, function, fields)


give_compiled_form(autodiff_thunk, halves_form(autodiff_thunk))
