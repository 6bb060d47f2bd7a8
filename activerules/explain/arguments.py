"""Reading the arguments of `explain`: a function and its annotations.

An annotation has a value, `Active(2.0)`, or a type, `Active[float64]`; a plain value or Numba type
is Const.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import numba
from numba import types

from activerules.annotations.activity import Active, Annotation, Const, Duplicated, Narrowed
from activerules.errors import ActivityError, NotYetSupported
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.forward_checks import read_forward_arguments
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.numba_ext.target.derivative import ActivityName, DerivativeSpec
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.pipeline.forward import ForwardDerivation, derive_forward
from activerules.pipeline.reverse import Derivation, derive
from activerules.rules.pattern import canonical_type
from activerules.rules.views import FORWARD_REPORT_VIEW, REVERSE_REPORT_VIEW
from activerules.values.argument import ArgumentSpec


@dataclass(frozen=True)
class Question:
    """The derivative to explain: the dispatcher, its arguments and the activity of the return."""

    dispatcher: Any
    arguments: tuple[ArgumentSpec, ...]
    return_activity: ActivityName | None
    forward: bool = False
    width: int = 1

    @property
    def signature(self) -> str:
        """`(x: Duplicated[float64[::1]], n: Const[int64])`."""
        return f"({', '.join(map(str, self.arguments))})"

    def derivation(self, *, split: bool = False) -> Derivation:
        """Compile the derivative up to its IR; errors say how to reproduce them."""
        with self._context():
            spec = self._spec("split" if split else "reverse")
            derived = derive(self.dispatcher, spec, view=REVERSE_REPORT_VIEW)
            if derived.gradient.return_activity == "active":
                checks.require_float_return(self.dispatcher, derived.gradient.result_type)
        return derived

    def forward_derivation(self) -> ForwardDerivation:
        """Compile the derivative in forward mode up to its IR; errors as in `derivation`."""
        with self._context():
            return derive_forward(self.dispatcher, self._spec("forward"), view=FORWARD_REPORT_VIEW)

    def _spec(self, mode: Literal["reverse", "split", "forward"]) -> DerivativeSpec:
        return DerivativeSpec(
            tuple(argument.numba_type for argument in self.arguments),
            tuple(argument.activity for argument in self.arguments),
            self.return_activity,
            mode,
            width=self.width,
        )

    def _context(self) -> AbstractContextManager[None]:
        return error_context.of_derivative(
            self.dispatcher, self.arguments, self.return_activity, forward=self.forward
        )


def read_question(
    function: Callable[..., Any],
    annotated: Sequence[Any],
    return_activity: type[Annotation] | None,
    *,
    forward: bool = False,
) -> Question:
    """Read the arguments of `explain`.

    Raises `ActivityError`, `ArityError`, `ShadowMismatch` as a call of `autodiff` would.
    """
    dispatcher = dispatcher_of(function)
    names = call_arguments.parameter_names(dispatcher, len(annotated))
    argtypes = [_type_of(name, item) for name, item in zip(names, annotated, strict=True)]
    if forward:
        read = read_forward_arguments(names, argtypes)
        result = None if return_activity in (None, Duplicated) else _activity_name(return_activity)
        return Question(dispatcher, read.arguments, result, forward=True, width=read.width)
    arguments = checks.read_arguments(names, argtypes)
    return Question(dispatcher, arguments, _activity_name(return_activity))


def _type_of(name: str, item: Any) -> Any:
    if isinstance(item, types.Type):
        return item
    kind = item.kind if isinstance(item, Narrowed) else item
    ty = canonical_type(item.type) if isinstance(item, Narrowed) else None
    if isinstance(ty, types.Type):
        return AnnotationType(kind, *[ty] * len(kind.__slots__))
    if isinstance(kind, type) and issubclass(kind, Annotation):
        raise ActivityError(
            f"`{name}` is marked {kind.__name__} without a type",
            why="a derivative is made for the types of the arguments",
            instead=[f"{kind.__name__}[float64[::1]], say", f"an annotated value: {kind.__name__}"],
        )
    try:
        return numba.typeof(item)
    except (ValueError, TypeError) as error:
        values = item.fields if isinstance(item, Annotation) else (item,)
        kinds = ", ".join(type(value).__name__ for value in values)
        raise ActivityError(f"`{name}` has no Numba type: {kinds}") from error


def _activity_name(marker: type[Annotation] | None) -> ActivityName | None:
    if marker is None:
        return None
    names: dict[type[Annotation], ActivityName] = {Active: "active", Const: "const"}
    if marker not in names:
        raise NotYetSupported(
            f"a {getattr(marker, '__name__', marker)} return is not yet supported",
            instead=["Active for a float", "Const for a function that writes into its arguments"],
        )
    return names[marker]
