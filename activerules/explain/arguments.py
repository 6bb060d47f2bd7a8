"""Reading the arguments of `explain`: a function and its annotations.

An annotation has a value, `Active(2.0)`, or a type, `Active[float64]`; a plain value or Numba type
is Const, but for `grad(f)` and `value_and_grad(f)`, which know what they differentiate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numba
from numba import types

from activerules.annotations.activity import (
    BY_NAME,
    Active,
    Annotation,
    Const,
    Duplicated,
    MixedDuplicated,
    Narrowed,
    is_annotation_class,
)
from activerules.annotations.trees import flattened
from activerules.api.derived import GradientFunction
from activerules.errors import ActivityError, ArityError, NotYetSupported
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.ir.plan.forward_plan import ForwardPlan
from activerules.ir.plan.plan import Plan
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.forward_checks import read_forward_arguments, wants_tangent
from activerules.numba_ext.rules.compiled import annotation_type
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.pipeline.derivation import Derivation
from activerules.pipeline.forward import derive_forward
from activerules.pipeline.reverse import derive
from activerules.rules.pattern import canonical_type
from activerules.rules.views import FORWARD_REPORT_VIEW, REVERSE_REPORT_VIEW
from activerules.values.argument import ArgumentSpec, types_and_activities
from activerules.values.layout import layout_of

_LANES = 2
"""How many tangents a batch has that is given by a type."""


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

    def derivation(self, *, split: bool = False) -> Derivation[Plan]:
        """Compile the derivative up to its IR; errors say how to reproduce them.

        That of an array which a function returns is explained as a pullback computes it.
        """
        split = split or self.return_activity == "duplicated"
        with self._context():
            spec = self._spec("split" if split else "reverse")
            derived = derive(self.dispatcher, spec, view=REVERSE_REPORT_VIEW)
            if self.return_activity is None and self._is_of_result(derived, split):
                return replace(self, return_activity="duplicated").derivation()
            if derived.gradient.return_activity == "active":
                checks.require_float_return(self.dispatcher, derived.gradient.result_type)
        return derived

    def _is_of_result(self, derived: Derivation[Plan], split: bool) -> bool:
        """Whether a derivative without a seed has to be that of the result, which is no float."""
        gradient = derived.gradient
        if (
            gradient.return_activity != "const"
            or layout_of(gradient.result_type).activity == "const"
        ):
            return False
        active = [argument.activity != "const" for argument in self.arguments]
        written = any(w and a for w, a in zip(gradient.written, active, strict=True))
        return any(active) and (split or not written)

    def forward_derivation(self) -> Derivation[ForwardPlan]:
        """Compile the derivative in forward mode up to its IR; errors as in `derivation`."""
        with self._context():
            return derive_forward(self.dispatcher, self._spec("forward"), view=FORWARD_REPORT_VIEW)

    def _spec(self, mode: Literal["reverse", "split", "forward"]) -> DerivativeSpec:
        return DerivativeSpec(
            *types_and_activities(self.arguments), self.return_activity, mode, width=self.width
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
    if isinstance(function, GradientFunction) and not any(map(_is_annotated, annotated)):
        function, annotated = function.differentiated, _as_differentiated(function, annotated)
    dispatcher = dispatcher_of(function)
    if not (return_activity is None or is_annotation_class(return_activity)):
        raise ActivityError(
            f"the activity of the result is an annotation class, not {return_activity!r}",
            instead=["return_activity=Active", "Duplicated", "Const"],
        )
    if return_activity is None and _begins_with_that_of_the_result(dispatcher, annotated):
        return_activity, *annotated = annotated
    names = call_arguments.parameter_names(dispatcher, len(annotated))
    argtypes = [_type_of(name, item) for name, item in zip(names, annotated, strict=True)]
    if forward:
        read = read_forward_arguments(names, argtypes)
        result = None if wants_tangent(return_activity) else "const"
        return Question(dispatcher, read.arguments, result, forward=True, width=read.width)
    arguments = checks.read_arguments(names, argtypes)
    return Question(dispatcher, arguments, _activity_name(return_activity))


def _is_annotated(item: Any) -> bool:
    return isinstance(item, Annotation | Narrowed) or is_annotation_class(item)


def _as_differentiated(function: GradientFunction[..., Any], items: Sequence[Any]) -> list[Any]:
    """The arguments of a gradient, with annotations on what it differentiates."""
    names = call_arguments.parameter_names(function.differentiated, len(items))
    values = flattened(tuple(items))  # dictionaries and dataclasses, which gradients take
    argtypes = [_type_of(name, value) for name, value in zip(names, values, strict=True)]
    for k in set(function.argnums) & set(range(len(argtypes))):
        activity = layout_of(argtypes[k]).activity
        kind = Active if activity == "const" else BY_NAME[activity]  # raises later, as grad does
        argtypes[k] = annotation_type(kind, argtypes[k])
    return argtypes


def _begins_with_that_of_the_result(dispatcher: Any, annotated: Sequence[Any]) -> bool:
    """Whether the activity of the result comes first, as it may in a call of `autodiff`."""
    if not (annotated and is_annotation_class(annotated[0])):
        return False
    try:
        call_arguments.parameter_names(dispatcher, len(annotated) - 1)
    except ArityError:
        return False
    return True


def _type_of(name: str, item: Any) -> Any:
    if isinstance(item, types.Type):
        return item
    kind = item.kind if isinstance(item, Narrowed) else item
    ty = canonical_type(item.type) if isinstance(item, Narrowed) else None
    if isinstance(ty, types.Type):
        return annotation_type(kind, ty, _LANES)
    if is_annotation_class(kind):
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
    names: dict[type[Annotation], ActivityName] = {
        Active: "active",
        Const: "const",
        Duplicated: "duplicated",
        MixedDuplicated: "duplicated",
    }
    if marker not in names:
        raise NotYetSupported(
            f"a {getattr(marker, '__name__', marker)} return is not yet supported",
            instead=[
                "Active for a float",
                "Duplicated for an array",
                "Const for a function that writes into its arguments",
            ],
        )
    return names[marker]
