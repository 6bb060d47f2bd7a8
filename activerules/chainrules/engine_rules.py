"""Rules written for the engine, called from Python: a pair as an rrule, a `forward` as an frule.

Their functions run interpreted: the annotations, `accumulate`, `active` and the configuration have
plain Python forms. Nothing is overwritten between the two of a pair, so no tape copies anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numba
import numpy as np
from numba import NumbaError
from numba.extending import is_jitted

from activerules.annotations.activity import (
    Active,
    Annotation,
    Const,
    Duplicated,
    MixedDuplicated,
    annotate,
)
from activerules.annotations.containers import is_array, is_list, is_tuple, like_tuple
from activerules.annotations.structural import Tangent
from activerules.annotations.tangents import (
    NoTangent,
    NotImplementedTangent,
    ZeroTangent,
    is_zero,
)
from activerules.annotations.thunks import extern
from activerules.annotations.values import kind_of, make_zero
from activerules.callables import parameters_of, python_function
from activerules.errors import NoRuleForActivity, NotYetSupported, TangentMismatch
from activerules.numba_ext.target.rule_function import compile_for_cpu
from activerules.rules.closures.delivery import copy_for_tape, shares_memory
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES
from activerules.rules.rule import ForwardRule, Half, RulePair
from activerules.values.layout import layout_of


def pair_for(function: Any, x: Sequence[Any]) -> RulePair | None:
    """The pair that the engine would use for these arguments; None if there is none.

    Raises `AmbiguousRule` and `IncompleteRule` as the engine does.
    """
    types = _types_of_call(function, x, "reverse")
    if types is None:
        return None
    kinds = [*_kinds(function, x), layout_of(types[-1]).activity]
    try:
        return RULES.find(function, types, kinds)
    except NoRuleForActivity:
        return None


def forward_for(function: Any, x: Sequence[Any]) -> ForwardRule | None:
    """The forward rule that the engine would use for these arguments; None if there is none."""
    types = _types_of_call(function, x, "forward")
    if types is None:
        return None
    result = Const if layout_of(types[-1]).activity == "const" else Duplicated
    kinds = [kind if kind is Const else Duplicated for kind in (*_kinds(function, x), result)]
    try:
        return RULES.find_forward(function, types, kinds)
    except NoRuleForActivity:
        return None


def _kinds(function: Any, x: Sequence[Any]) -> list[type[Annotation]]:
    """The activities of arguments: Const if they have no derivative, or are declared inactive."""
    inactive = RULES.inactive_arguments(function, parameters_of(function))
    return [Const if i in inactive else kind_of(value) for i, value in enumerate(x)]


def is_object(x: Any) -> bool:
    """Whether a value is a record, a list, a dictionary or an object with derivatives: constant in
    direct calls.
    """
    try:
        return kind_of(x) is Const and layout_of(numba.typeof(x)).activity != "const"
    except (ValueError, NumbaError):
        return False


def rrule(pair: RulePair, x: Sequence[Any]) -> tuple[Any, Callable[[Any], Any]]:
    """`(y, pullback)` by a pair."""
    config = RuleConfig(overwritten=(False,) * len(x))
    saved = [copy_for_tape(value) if i in pair.saves else value for i, value in enumerate(x)]
    shadows = [make_zero(value) for value in x]
    augmented = python_function(pair.augmented)(config, pair.result, *_annotated(pair, x, shadows))

    def pullback(dy: Any) -> tuple[Any, ...]:
        for shadow in (*shadows, augmented.shadow):
            _clear(shadow)
        annotated = _annotated(pair, saved, shadows)
        return NoTangent(), *_pulled(pair, config, augmented, annotated, extern(dy))

    return augmented.primal, pullback


def frule(rule: ForwardRule, deltas: Sequence[Any], x: Sequence[Any]) -> tuple[Any, Any]:
    """`(y, dy)` by a forward rule; an array among `deltas` is passed as it is, and may be written
    where the function writes its argument.
    """
    for value, delta in zip(x, deltas, strict=True):
        if is_object(value) and not (delta is None or is_zero(extern(delta))):
            raise NotYetSupported(
                f"frule with a tangent of a {type(value).__name__}",
                why="direct calls of rules written for the engine take objects for constants",
                instead=["ar.jvp, or frule_via_ad"],
            )
    tangents = [
        _tangent(value, delta if how == "as is" else None)
        for value, delta, how in zip(x, deltas, rule.lowering, strict=True)
    ]
    annotated = list(map(annotate, rule.arguments, x, tangents))
    returned = python_function(rule.function)(RuleConfig(), rule.result, *annotated)
    if rule.result is not Const:
        return returned
    return (returned[0] if isinstance(returned, tuple) else returned), NoTangent()


def _tangent(value: Any, delta: Any) -> Any:
    delta = ZeroTangent() if delta is None else extern(delta)
    if is_array(value) and is_array(delta) and delta.dtype == value.dtype:
        return delta
    return without_integers(filled(make_zero(value), delta))


def without_integers(tangent: Any) -> Any:
    """A tangent with zeros for the integers in tuples, as a forward rule is passed it."""
    if is_tuple(tangent):
        return like_tuple(type(tangent), map(without_integers, tangent))
    return type(tangent)(0) if isinstance(tangent, int | np.integer | np.bool_) else tangent


def _types_of_call(function: Any, x: Sequence[Any], mode: Half) -> list[Any] | None:
    """The types of the arguments and, last, of the result, where there are rules for a mode."""
    if not RULES.carries_rule(function, mode):
        return None
    try:
        types = [numba.typeof(value) for value in x]
        return [*types, _result_type(function, x, types)]
    except (ValueError, NumbaError):
        return None


def _result_type(function: Any, x: Sequence[Any], types: Sequence[Any]) -> Any:
    """The type of the result, which is part of choosing a pair. Found on copies of `x`: the pair
    itself writes what the function writes into its arguments.
    """
    if is_jitted(function):
        return compile_for_cpu(function, tuple(types), {})[0].result_type
    return numba.typeof(function(*map(copy_for_tape, x)))


def _clear(shadow: Any) -> None:
    """Fill the arrays of a shadow with zeros: the tape may hold them."""
    if is_array(shadow):
        shadow[...] = 0
    for part in shadow if is_tuple(shadow) else ():
        _clear(part)


def _annotated(pair: RulePair, x: Sequence[Any], shadows: Sequence[Any]) -> list[Annotation]:
    return list(map(annotate, pair.arguments, x, shadows))


def _pulled(
    pair: RulePair, config: RuleConfig, augmented: Any, annotated: Sequence[Annotation], dy: Any
) -> list[Any]:
    """The cotangents of the arguments; their shadows are zero before."""
    dret = _result(pair.result, augmented, dy)
    tape = _own_tape(augmented.tape, [dret.fields[1:], *(x.fields[1:] for x in annotated)])
    returned = python_function(pair.reverse)(config, dret, tape, *annotated)
    entries = entry_per_argument(returned, annotated)
    return [
        NotImplementedTangent("that of an object; ar.vjp and rrule_via_ad compute it")
        if is_object(x.fields[0]) and not isinstance(x, Const)
        else _cotangent(x, entry)
        if how == "as is"
        else NoTangent()
        for x, entry, how in zip(annotated, entries, pair.lowering, strict=True)
    ]


def _own_tape(tape: Any, shadows: Any) -> Any:
    """A copy of a tape that a reverse may write into; shadows in it are not copied."""
    return with_arrays(tape, lambda a: a if shares_memory(a, shadows) else a.copy())


def with_arrays(tape: Any, new: Callable[[Any], Any]) -> Any:
    """A tape with `new(array)` in place of each array, also in tuples and lists."""
    if is_tuple(tape):
        return like_tuple(type(tape), (with_arrays(item, new) for item in tape))
    if is_list(tape):
        return [with_arrays(item, new) for item in tape]
    return new(tape) if is_array(tape) else tape


def _result(kind: type[Annotation], augmented: Any, dy: Any) -> Annotation:
    if kind is Const:
        return Const(augmented.primal)
    if kind is Active:
        y = augmented.primal
        # A rule may return an integer where the function returns a float: the cotangent is a float.
        return Active(filled(make_zero(float(y) if isinstance(y, int) else y), dy))
    shadow = make_zero(augmented.primal) if augmented.shadow is None else augmented.shadow
    return annotate(kind, augmented.primal, filled(shadow, dy))


def filled(bar: Any, dy: Any) -> Any:
    """A cotangent `dy` with the structure of zeros `bar`, into whose arrays it is written; parts
    that `dy` does not have stay zero.
    """
    if is_zero(dy):
        return bar
    if is_tuple(bar):
        return like_tuple(type(bar), map(filled, bar, entries_of(dy, len(bar))))
    if np.shape(dy) != np.shape(bar):
        shapes = f"{np.shape(dy)}, expected {np.shape(bar)}"
        raise TangentMismatch(f"a tangent or cotangent has the shape {shapes}")
    try:
        if not is_array(bar):
            return type(bar)(dy)
        bar[...] = dy
        return bar
    except (TypeError, ValueError) as error:
        raise TangentMismatch(
            f"a tangent or cotangent is of type {type(dy).__name__}, expected numbers"
        ) from error


def entries_of(dy: Any, count: int) -> list[Any]:
    """The entries of the tangent of a tuple; those that a `Tangent` leaves out are zero."""
    is_partial = isinstance(dy, Tangent)
    entries = list(dy) if is_partial or is_tuple(dy) or is_list(dy) else []
    if len(entries) > count or (len(entries) < count and not is_partial):
        raise TangentMismatch(f"a tangent of {count} entries, not {dy!r}")
    return [*entries, *(ZeroTangent() for _ in range(count - len(entries)))]


def entry_per_argument(returned: Any, annotated: Sequence[Annotation]) -> tuple[Any, ...]:
    """The returned entries, one per argument; a reverse with one derivative may return it alone,
    which may be a tuple as long as the arguments are many.
    """
    carrying = [isinstance(a, Active | MixedDuplicated) for a in annotated]
    values = [a.fields[0] for a in annotated]
    if isinstance(returned, tuple) and len(returned) == len(annotated):
        alone = [value for value, carries in zip(values, carrying, strict=True) if carries]
        is_each = all(map(_has_form, compress(returned, carrying), alone))
        if is_each or len(alone) != 1 or not _has_form(returned, alone[0]):
            return returned
    return tuple(returned if carries else None for carries in carrying)


def _has_form(derivative: Any, value: Any) -> bool:
    """Whether a derivative consists of tuples where the value does, and only there."""
    if not is_tuple(value):
        return not is_tuple(derivative)
    return (
        is_tuple(derivative)
        and len(derivative) == len(value)
        and all(map(_has_form, derivative, value))
    )


def _cotangent(annotation: Annotation, entry: Any) -> Any:
    if isinstance(annotation, Const) or kind_of(annotation.fields[0]) is Const:
        return NoTangent()
    if not isinstance(annotation, Duplicated | MixedDuplicated):
        return entry
    shadow = copy_for_tape(annotation.fields[1])
    return _joined(entry, shadow) if is_tuple(shadow) else shadow


def _joined(entry: Any, shadow: Any) -> Any:
    """The arrays of a shadow, joined with the returned derivatives of everything else."""
    if is_tuple(shadow):
        entries = entry if is_tuple(entry) else (None,) * len(shadow)
        return like_tuple(type(shadow), map(_joined, entries, shadow))
    return shadow if is_array(shadow) else entry
