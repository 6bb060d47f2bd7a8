"""One run of a rule as in the engine: interpreted, or compiled.

Needs       a pair (or a forward rule) chosen for a call, a configuration, annotated arguments
Gives       `run_pair`, `run_forward`: a `PairOutcome` with the result and the derivatives
Invariants  H1  between the two halves, all memory that the configuration calls overwritten is
                overwritten, and so is the result, which belongs to the caller
            H2  memory that is overwritten after the first half is not changed by the second
            H3  the reverse finds the arguments in `saves`, the tape, and the result in `dret`
                unchanged; it runs once per lane, on one tape, and writes into none of its arrays;
                lists are copied
            H4  a rule that promises to keep no shadow keeps none
            H5  a rule returns new memory; arrays on the tape that the reverse writes into share no
                memory with others
            H6  compiled halves check their indices

Compiled halves are called by a small `@njit` function; the facts of the configuration are constants
in them, as in the engine.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numba
import numpy as np

from activerules.annotations.activity import (
    SHADOWED,
    Active,
    Annotation,
    BatchDuplicated,
    Const,
    Duplicated,
    MixedDuplicated,
    annotate,
)
from activerules.annotations.containers import is_tuple, like_tuple
from activerules.annotations.tangents import NoTangent, ZeroTangent, is_zero
from activerules.callables import display_name, location_of, python_function
from activerules.chainrules.engine_rules import entry_per_argument, filled, with_arrays
from activerules.errors import RuleCheckError
from activerules.numba_ext.codegen.made_once import NO_C_WRAPPER
from activerules.numba_ext.rules import rule_compiler as _overloads  # noqa: F401  (what rules call)
from activerules.numba_ext.rules.functions import refused_by_numba
from activerules.numba_ext.split.pullback import is_never_boxed
from activerules.numba_ext.target.call_facts import RuleFunctionCompiler
from activerules.numba_ext.target.rule_function import NUMBA_REFUSES
from activerules.rules.pattern import type_name
from activerules.rules.protocol import AugmentedReturn, RuleConfig
from activerules.rules.registry import RULES
from activerules.rules.rule import ForwardRule, RulePair
from activerules.rules.written import function_from
from activerules.testing.gradient import arrays_of
from activerules.testing.numeric import copied, is_differentiable
from activerules.testing.situations import Lane
from activerules.testing.spoiling import spoil
from activerules.testing.trees import contents, is_object
from activerules.values.kinds import items_of


@dataclass
class PairOutcome:
    """The outcome of a run.

    primal         the result; None if the rule was not asked for it
    entries        per lane: the entries that `reverse` returned, one per argument; in forward mode
                   the tangent
    untouched      whether the second half left memory that was overwritten between the halves alone
    """

    primal: Any
    entries: Any
    untouched: bool = True


def run_pair(
    pair: RulePair,
    config: RuleConfig,
    lanes: Sequence[Lane],
    *,
    compiled: bool,
    overwrite: bool = True,
) -> PairOutcome:
    """Run the first half once, the second for every lane (H3).

    With `overwrite=False` memory that the configuration calls overwritten is not (H1).
    """
    augmented, reverse = (_rule_function(f, compiled) for f in (pair.augmented, pair.reverse))
    annotated = lanes[0].annotated
    saved = {
        i: copied(annotated[i].fields[0])
        for i in pair.saves
        if config.overwritten[i] or config.written[i]
    }
    first = _driver("augmented", augmented, config, pair.result, len(annotated), compiled)
    with _refusals(pair.name, "augmented_primal", pair.augmented):
        if compiled:
            _require_held(pair.name, first, annotated)
        outcome = first(*annotated)
    _require_protocol(pair, outcome)
    if not pair.keeps_shadow:
        _require_no_shadow(pair, annotated, outcome)
    shadow = outcome.shadow if pair.result in SHADOWED else None
    _require_own_memory(pair.name, [*arrays_in((outcome.primal, shadow))], annotated)
    primal, kept = (copied(outcome.primal) for _ in range(2))
    overwritten = _overwritten(config, annotated, outcome.primal) if overwrite else []
    tape = _detached(outcome.tape, overwritten)
    for array in overwritten:
        spoil(array)
    spoiled = [array.copy() for array in overwritten]
    second = _driver("reverse", reverse, config, pair.result, len(annotated), compiled)
    entries = []
    for lane in lanes:
        dret = _result(pair, outcome._replace(primal=primal), lane.result_bar)
        passed = [
            annotate(type(x), saved[i], *x.fields[1:]) if i in saved else x
            for i, x in enumerate(lane.annotated)
        ]
        returned = _run_reverse(pair, second, dret, tape, passed)
        entries.append(entry_per_argument(returned, passed))
        if not all(map(_same, arrays_in(primal), arrays_in(kept))):
            raise RuleCheckError(
                f"{pair.name}: `reverse` writes into `dret.val`",
                why="it may be read again, as for each row of a Jacobian",
                instead=["compute in a new array"],
            )
        if pair.result in SHADOWED:
            for array in arrays_in(outcome.shadow):
                array[...] = 0
    untouched = all(map(_same, overwritten, spoiled))
    return PairOutcome(primal, tuple(entries), untouched)


def _require_held(name: str, first: Any, annotated: Sequence[Annotation]) -> None:
    """Raise `RuleCheckError` for a tape that Python cannot hold between the halves, as a range."""
    first.compile(tuple(map(first.typeof_pyval, annotated)))
    returned = first.nopython_signatures[-1].return_type
    is_protocol = getattr(returned, "instance_class", None) is AugmentedReturn
    if is_protocol and is_never_boxed(returned):
        raise RuleCheckError(
            f"{name}: the tape cannot be checked in compiled code",
            why=f"Python cannot hold it in between: {type_name(items_of(returned)[-1])}",
            instead=[f"check_rule({name}, …, compiled=False)"],
        )


def _run_reverse(
    pair: RulePair, reverse: Any, dret: Annotation, tape: Any, passed: Sequence[Annotation]
) -> Any:
    """What `reverse` returns; `RuleCheckError` if it writes into an array of its tape."""
    shadows = list(arrays_in(tuple(x.fields[1:] for x in (dret, *passed))))
    own = [a for a in arrays_in(tape) if not any(share(a, shadow) for shadow in shadows)]
    before = [array.copy() for array in own]
    with _refusals(pair.name, "reverse", pair.reverse):
        returned = reverse(dret, _with_own_lists(tape), *passed)
    _require_kept(pair, own, before)
    return returned


def _require_protocol(pair: RulePair, returned: Any) -> None:
    """Raise `RuleCheckError` for a return value of the first half that the engine refuses."""
    if not isinstance(returned, AugmentedReturn):
        raise RuleCheckError(
            f"{pair.name}: `augmented_primal` returns {returned!r}, "
            "expected AugmentedReturn(primal, shadow, tape)"
        )
    if pair.result is Active and returned.shadow is not None:
        raise RuleCheckError(
            f"{pair.name}: `augmented_primal` returns the shadow {returned.shadow!r}, "
            "expected None: the result is not an array"
        )


def _require_no_shadow(pair: RulePair, annotated: Sequence[Annotation], augmented: Any) -> None:
    """Raise `RuleCheckError` if the promise of `keeps_shadow=False` is broken (H4)."""
    passed = [x.fields[1] for x in annotated if isinstance(x, Duplicated | MixedDuplicated)]
    shadows = list(arrays_in(tuple(passed)))
    if pair.result in SHADOWED:
        shadows += arrays_in(augmented.shadow)
    if any(share(array, shadow) for array in arrays_in(augmented.tape) for shadow in shadows):
        raise RuleCheckError(f"{pair.name}: keeps_shadow=False, and a shadow is on its tape")


def _require_own_memory(
    name: str, returned: Sequence[Any], annotated: Sequence[Annotation]
) -> None:
    """Raise `RuleCheckError` if a rule returns arrays that are not new memory (H5)."""
    passed = [array for x in annotated for array in arrays_in(x.fields)]
    for i, array in enumerate(returned):
        if any(share(array, other) for other in (*returned[:i], *passed)):
            raise RuleCheckError(
                f"{name}: what the rule returns shares memory with an argument, with another "
                "array that it returns, or with a shadow; return a copy"
            )


def require_noalias(f: Any, result: Any, args: Sequence[Any]) -> None:
    """Raise `RuleCheckError` if a function, called with `args`, breaks the promise of `noalias`."""
    passed = list(arrays_in(tuple(args)))
    if RULES.is_noalias(f) and any(share(x, y) for x in arrays_in(result) for y in passed):
        raise RuleCheckError(
            f"{display_name(f)} is declared `noalias`, and returns memory of an argument",
            instead=["a copy, or no promise: every call is checked then"],
        )


def share(array: Any, other: Any) -> bool:
    """Whether two arrays have an item in common."""
    return np.may_share_memory(array, other) and np.shares_memory(array, other)


def _same(array: Any, copy: Any) -> bool:
    return np.array_equal(array, copy, equal_nan=array.dtype.kind in "fc")


def _with_own_lists(tape: Any) -> Any:
    """The tape with copies of its lists, and of the arrays in them: they may be written."""
    if isinstance(tape, list):
        return list(map(copied, tape))
    if is_tuple(tape):
        return like_tuple(type(tape), map(_with_own_lists, tape))
    return tape


def _require_kept(pair: RulePair, arrays: Sequence[Any], before: Sequence[Any]) -> None:
    """Raise `RuleCheckError` if the arrays of a tape have changed (H3, H5)."""
    for i, (array, copy) in enumerate(zip(arrays, before, strict=True)):
        if _same(array, copy):
            continue
        if any(share(array, other) for other in (*arrays[:i], *arrays[i + 1 :])):
            raise RuleCheckError(
                f"{pair.name}: `reverse` writes into an array of its tape that shares memory with "
                "another: it is given copies, which do not"
            )
        raise RuleCheckError(
            f"{pair.name}: `reverse` writes into an array of its tape",
            why="a tape may be read again, as for each row of a Jacobian: the array is copied at "
            "every call",
            instead=["compute in a new array", "a copy, made where `reverse` needs it"],
        )


@contextmanager
def _refusals(name: str, half: str, function: Any) -> Generator[None]:
    """What compiled code refuses where it is compiled, as an assignment to `x.val` or `x.dval`."""
    try:
        yield
    except FrozenInstanceError as error:
        of_annotation = error.args[0].endswith(("'val'", "'dval'"))
        to = "an annotation" if of_annotation else "config"
        raise RuleCheckError(
            f"{name}: `{half}` assigns to {to}: {error}",
            why="it is a value: compiled code refuses this, too",
            instead=["add into a shadow: x.dval[:] += …"] if of_annotation else (),
        ) from error
    except NUMBA_REFUSES as error:
        where = ("in the rule", half, location_of(function))
        raise refused_by_numba(name, where, error) from error


def _detached(tape: Any, overwritten: Sequence[Any]) -> Any:
    """The tape, with copies of the arrays in it that are overwritten before they are read."""

    def detached(array: Any) -> Any:
        return array.copy(order="K") if any(share(array, x) for x in overwritten) else array

    return with_arrays(tape, detached)


def arrays_in(value: Any) -> Iterator[Any]:
    """The arrays in a value, also in tuples, lists and objects."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from arrays_in(item)
    elif is_object(value):
        yield from arrays_in(contents(value))


def run_forward(
    rule: ForwardRule, config: RuleConfig, annotated: Sequence[Annotation], *, compiled: bool
) -> PairOutcome:
    """Run a forward rule; its tangents are in `entries`, one per lane."""
    function = _rule_function(rule.function, compiled)
    run = _driver("forward", function, config, rule.result, len(annotated), compiled)
    with _refusals(rule.name, "forward", rule.function):
        returned = run(*annotated)
    if returned is None and rule.result is Const:
        return PairOutcome(None, (None,) * config.width)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RuleCheckError(f"{rule.name}: the forward rule returns {returned!r}, not a pair")
    primal, tangents = returned
    if rule.result is not BatchDuplicated:
        tangents = (tangents,)
    elif not isinstance(tangents, tuple) or len(tangents) != config.width:
        raise RuleCheckError(
            f"{rule.name}: the tangent of a BatchDuplicated result is a tuple of {config.width}, "
            f"not {tangents!r}"
        )
    _require_own_memory(rule.name, [*arrays_in((primal, tangents))], annotated)
    shapes = [array.shape for array in arrays_in(primal)]
    for tangent in tangents:
        if not is_zero(tangent) and [array.shape for array in arrays_in(tangent)] != shapes:
            raise RuleCheckError(
                f"{rule.name}: the forward rule returns the tangent {tangent!r}, "
                "expected one in the shape of the result"
            )
    return PairOutcome(primal, tangents)


_compiled: dict[Any, Any] = {}


def _rule_function(function: Any, compiled: bool) -> Any:
    plain = python_function(function)
    if not compiled:
        return plain
    if plain not in _compiled:
        _compiled[plain] = numba.njit(
            pipeline_class=RuleFunctionCompiler, boundscheck=True, **NO_C_WRAPPER
        )(plain)
    return _compiled[plain]


def _driver(
    which: str, function: Any, config: RuleConfig, result: Any, count: int, compiled: bool
) -> Any:
    """A function that calls a half; the configuration, equal in all runs, is a constant in it."""
    names = ", ".join(f"x{i}" for i in range(count))
    head = {"reverse": "dret, tape, ", "augmented": "", "forward": ""}[which]
    passed = "config, dret, tape, " if which == "reverse" else "config, ret, "
    source = f"def driver({head}{names}): return function({passed}{names})"
    scope = {"function": function, "config": config, "ret": result}
    driver = function_from(source, "driver", scope, module=__name__)
    return numba.njit(**NO_C_WRAPPER)(driver) if compiled else driver


def _overwritten(config: RuleConfig, annotated: Sequence[Annotation], primal: Any) -> list[Any]:
    """The arrays that are overwritten between the halves (H1)."""
    arrays = [
        array
        for x, overwritten in zip(annotated, config.overwritten, strict=True)
        if overwritten
        for array in arrays_in(x.fields[0])
    ]
    return [a for a in (*arrays, *arrays_in(primal)) if a.flags.writeable]


def _result(pair: RulePair, augmented: Any, bar: Any) -> Annotation:
    """What `reverse` is passed as `dret`; `bar` is the cotangent of the result."""
    if pair.result is Const:
        return Const(augmented.primal if pair.keeps_result else bar)
    if pair.result is Active:
        return Active(bar)
    arrays = list(arrays_in(augmented.shadow))
    shapes = [array.shape for array in arrays_in(bar)]
    if [array.shape for array in arrays] != shapes or not _is_zero(augmented.shadow):
        raise RuleCheckError(
            f"{pair.name}: `augmented_primal` returns the shadow {augmented.shadow!r}, "
            "expected zeros in the shape of the result"
        )
    return annotate(pair.result, augmented.primal, filled(augmented.shadow, bar))


def _is_zero(shadow: Any) -> bool:
    """Whether all floats in a shadow are zero."""
    if is_tuple(shadow):
        return all(map(_is_zero, shadow))
    return not is_differentiable(shadow) or not np.any(shadow)


def is_like(found: Any, wanted: Any) -> bool:
    """Whether a derivative has the structure of a tangent; None stands for zero."""
    if found is None or not isinstance(wanted, tuple):
        return found is None or not isinstance(found, tuple)
    return (
        isinstance(found, tuple) and len(found) == len(wanted) and all(map(is_like, found, wanted))
    )


def start_of(tangent: Any) -> Any:
    """The initial shadow: None in place of the numbers in a tuple with arrays."""
    arrays = arrays_of(tangent)
    return arrays if isinstance(tangent, tuple) and is_differentiable(arrays) else tangent


def tangent_of(direction: Any, varies: bool) -> Any:
    """The tangent of an argument for an frule."""
    if direction is None:
        return NoTangent()
    return direction if varies else ZeroTangent()
