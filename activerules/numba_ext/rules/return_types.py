"""What the functions of a rule return, by type: `RuleReturnError` if it is not what they should.

Needs       the compile result of a function of a rule, and the rule
Gives       `tape_of_augmented`, `derivative_paths`, `forward_paths`: what is returned, and where;
            `rounds`, `converts`: which types are accepted for another
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import types
from numba.core.typeconv.castgraph import Conversion

from activerules.annotations.activity import (
    RETURNED,
    Active,
    BatchDuplicated,
    Duplicated,
    MixedDuplicated,
)
from activerules.errors import NotYetSupported, RuleReturnError
from activerules.ir.derivatives.rulecall import ForwardRuleRequest
from activerules.numba_ext.rules.compiled import CalledFunction, RuleParameter
from activerules.numba_ext.rules.functions import Chosen, cpu_typing_context, rule_location
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.rules.pattern import type_name
from activerules.rules.protocol import AugmentedReturn
from activerules.rules.rule import ForwardRule, RulePair
from activerules.values.kinds import anonymous, derivative_type, items_of
from activerules.values.layout import layout_of

ResultPath = tuple[int, ...] | None
"""The path of a value in the return value of a rule: indices into tuples, () for all of it."""


def tape_of_augmented(
    augmented: Any, marked: MarkedCall, pair: RulePair, *, needs_primal: bool
) -> types.Type:
    """The type of the tape that an augmented primal returns, with a result of the right type."""
    returned = augmented.signature.return_type
    parts = items_of(returned) if isinstance(returned, types.BaseTuple) else ()
    if getattr(returned, "instance_class", None) is not AugmentedReturn or len(parts) != 3:
        whole = "AugmentedReturn(primal, shadow, tape), all three"
        raise wrong_return(pair.augmented, pair, returned, whole)
    primal, shadow, tape = parts
    expected = marked.result_type
    if not (rounds(primal, expected) or (primal == types.none and not needs_primal)):
        if primal == expected:
            raise NotYetSupported(
                f"{pair.name} has a rule and returns {type_name(primal)}",
                why="a rule has no cotangent for a number that may be None",
                instead=["return the number, and a truth value for whether it is there"],
            )
        raise wrong_return(pair.augmented, pair, primal, f"{type_name(expected)} as primal")
    if pair.result in (Duplicated, MixedDuplicated) and not converts(shadow, expected):
        zeros = "zeros in the shape of the primal: ar.make_zero(y)"
        raise wrong_return(pair.augmented, pair, shadow, f"{type_name(expected)} as shadow", zeros)
    if pair.result is Active and shadow != types.none:
        nothing = "None as shadow: the result is not an array"
        raise wrong_return(pair.augmented, pair, shadow, nothing)
    if not tape.is_precise() or isinstance(tape, types.Optional):
        raise wrong_return(pair.augmented, pair, tape, "a tape of one type")
    return tape


def derivative_paths(
    reverse: Any, called: CalledFunction, pair: RulePair
) -> tuple[int | None, ...]:
    """The index, in the return value of the reverse, of the derivative with respect to each
    parameter that is Active at the call or has an Active part; None for all of that value.
    """
    returned, parameters = reverse.signature.return_type, called.parameters
    active = [i for i, p in enumerate(parameters) if p.annotation.kind in RETURNED]
    wanted = [i for i, p in enumerate(parameters) if called.has_active(p)]
    if returns_entries(returned, parameters):
        return tuple(wanted)
    if len(active) == 1 and _fits(parameters[active[0]], returned):
        return tuple(None for _ in wanted)
    if not active and returned == types.none:
        return ()
    what = _expected_derivatives(parameters)
    if isinstance(returned, types.BaseTuple) and len(returned) == len(parameters):
        entries = enumerate(zip(parameters, items_of(returned), strict=True))
        wrong = next(i for i, (parameter, ty) in entries if not _fits(parameter, ty))
        what += f"; entry {wrong} (`{parameters[wrong].name}`)"
    raise wrong_return(pair.reverse, pair, returned, what, _advice(parameters, returned))


def _advice(parameters: Sequence[RuleParameter], returned: types.Type) -> str:
    """What to write instead of the derivative of an array, and of None for that of a number."""
    is_each = isinstance(returned, types.BaseTuple) and len(returned) == len(parameters)
    entries = items_of(returned) if is_each else [returned] * len(parameters)
    for parameter, ty in zip(parameters, entries, strict=True):
        kind = parameter.annotation.kind
        if kind is Duplicated and isinstance(ty, types.Array):
            return f"add it to the shadow: accumulate({parameter.name}, …)"
        if kind is Active and (ty == types.none or isinstance(ty, types.Optional)):
            return "a number on every path: 0.0 where the derivative is zero"
    return ""


def returns_entries(returned: types.Type, parameters: Sequence[RuleParameter]) -> bool:
    """Whether a reverse returns an entry per parameter, rather than its only derivative."""
    return (
        isinstance(returned, types.BaseTuple)
        and len(returned) == len(parameters)
        and all(map(_fits, parameters, items_of(returned)))
    )


def _fits(parameter: RuleParameter, ty: types.Type) -> bool:
    if parameter.annotation.kind in RETURNED:
        wanted = derivative_type(parameter.value_type)
        return rounds(ty, wanted) or rounds(ty, anonymous(wanted))
    if parameter.annotation.kind is Duplicated:
        return ty == types.none
    return True


def _expected_derivatives(parameters: Sequence[RuleParameter]) -> str:
    entries = [
        type_name(anonymous(derivative_type(p.value_type)))
        if p.annotation.kind in RETURNED
        else "None"
        for p in parameters
    ]
    whole = f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"
    active = [entry for entry in entries if entry != "None"]
    if len(active) > 1:
        return whole
    return f"{whole} or {active[0] if active else 'None'}"


def forward_paths(
    compiled: Any, marked: MarkedCall, chosen: ForwardRule, request: ForwardRuleRequest
) -> tuple[ResultPath, ResultPath]:
    """The paths of primal and tangent; `RuleReturnError` if a requested one is missing."""
    ty = compiled.signature.return_type
    primal = marked.result_type
    is_batch = chosen.result is BatchDuplicated
    tangent = types.UniTuple(primal, request.width) if is_batch else primal
    parts = items_of(ty) if isinstance(ty, types.BaseTuple) and len(ty) == 2 else ()
    if parts and rounds(parts[0], primal) and rounds(parts[1], tangent):
        return (0,), (1,)
    needs_tangent = request.result != "const"
    if not needs_tangent and rounds(ty, primal):
        return (), None
    if needs_tangent and not request.needs_primal and rounds(ty, tangent):
        return None, ()
    if not needs_tangent and not request.needs_primal and ty == types.none:
        return None, None
    wanted = [str(primal)] * request.needs_primal + [str(tangent)] * needs_tangent
    expected = f"({', '.join(wanted)})" if len(wanted) == 2 else (wanted or ["None"])[0]
    names = ["primal"] * request.needs_primal + ["tangent"] * needs_tangent
    raise wrong_return(chosen.function, chosen, ty, f"{expected} as {' and '.join(names)}")


def rounds(ty: types.Type, expected: types.Type) -> bool:
    """Whether what a rule returns converts to `expected`: without loss, or by rounding numbers to
    its precision. In compiled code `2 * x` has double precision if `x` has single.
    """
    if isinstance(ty, types.BaseAnonymousTuple) and isinstance(expected, types.BaseAnonymousTuple):
        items, wanted = items_of(ty), items_of(expected)
        return len(items) == len(wanted) and all(map(rounds, items, wanted))
    if isinstance(expected, types.Float | types.Complex):
        real = types.Float | types.Integer
        return isinstance(ty, real) or (
            isinstance(ty, types.Complex) and isinstance(expected, types.Complex)
        )
    return converts(ty, expected)


def converts(ty: types.Type, expected: types.Type) -> bool:
    """Whether type `ty` converts to `expected` without loss. A truth value is no number: as a
    derivative it is a comparison that was meant to be a factor.
    """
    if isinstance(ty, types.Optional):
        return ty == expected and not layout_of(ty).numbers.any
    if isinstance(ty, types.Boolean) != isinstance(expected, types.Boolean):
        return False
    if isinstance(ty, types.BaseTuple) and isinstance(expected, types.BaseTuple):
        items = zip(items_of(ty), items_of(expected), strict=False)
        if not all(converts(*pair) for pair in items):
            return False
    if ty == expected:
        return True
    if (ty == types.none) != (expected == types.none):
        return False
    conversion = cpu_typing_context().can_convert(ty, expected)
    return conversion is not None and conversion <= Conversion.safe


def wrong_return(
    function: Any, pair: Chosen, ty: types.Type, expected: str, advice: str = ""
) -> RuleReturnError:
    """The error for a function of a rule that returns the wrong type."""
    return RuleReturnError(
        f"the rule of {pair.name} returns {type_name(ty)}, expected {expected}",
        where=[rule_location(function, ())],
        instead=[advice] if advice else [],
    )
