"""Rule pairs compiled for the CPU, and their types checked against the protocol of rules.

Needs       a marked call, the rule chosen for it, and the request it was chosen by
Gives       `compile_rule`: a `CompiledRule`; the typing that it shares with forward rules
Invariants  T1  what a rule returns and the tape its reverse takes are checked when it is compiled
            T2  rules are compiled as if called from Python: no flag of the differentiated function
                reaches them (those of the function that a rule is for: `rules.functions`)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from numba.core import types

from activerules.annotations.activity import (
    Active,
    Annotation,
    Const,
    Duplicated,
    MixedDuplicated,
)
from activerules.errors import NotCompilable, TapeMismatch
from activerules.ir.derivatives.rulecall import ForwardRuleRequest, RuleRequest
from activerules.numba_ext.codegen.types import ConfigType
from activerules.numba_ext.codegen.unlinked import compiling_for_cpu
from activerules.numba_ext.rules.checks import (
    alike,
    apart,
    copy_alone,
    copy_in_place,
    copy_of,
    in_layout_of,
    kept_if_shared,
    make_zero_of,
    unwritten,
)
from activerules.numba_ext.rules.compiled import (
    CalledFunction,
    CompiledRule,
    RuleArgument,
    RuleChecks,
    RuleParameter,
    SavedArgument,
    Served,
    SharedCheck,
    annotation_type,
)
from activerules.numba_ext.rules.functions import (
    Chosen,
    compile_function,
    cpu_typing_context,
    flags_beside,
    flags_in_place_of,
    rule_location,
)
from activerules.numba_ext.rules.objects import (
    is_copied_memory,
    nothing_kept,
    object_checks,
    objects_apart,
)
from activerules.numba_ext.rules.parts import flattened, part_kind, wholes_of
from activerules.numba_ext.rules.results import array_types
from activerules.numba_ext.rules.return_types import converts, derivative_paths, tape_of_augmented
from activerules.numba_ext.rules.said_by_numba import speaks_of_tape
from activerules.numba_ext.rules.tapes import (
    detachers_of,
    frozen,
    is_trusted,
    lists_of,
    of_result,
    reads_value,
)
from activerules.numba_ext.target.marked_calls import MarkedCall, plain_type
from activerules.numba_ext.target.readonly import arguments_read, only_reads_arrays
from activerules.rules.pattern import type_name
from activerules.rules.protocol import RuleConfig
from activerules.rules.rule import RulePair
from activerules.values.kinds import is_number_array, is_object, leads_to_memory, leaves_of


def compile_rule(call: Served[RulePair, RuleRequest]) -> CompiledRule:
    """Compile both halves for the CPU and check what they return (T1)."""
    marked, pair, request = call.marked, call.rule, call.request
    with compiling_for_cpu():
        arguments = rule_arguments(marked, pair, request)
        checks = checks_of(call, arguments)
        called = CalledFunction(marked, arguments, parameters_of(marked, pair), checks)
        told = _config(call)
        config = ConfigType(told)
        annotations = tuple(parameter.annotation for parameter in called.parameters)
        result = annotation_type(pair.result, marked.result_type)
        marker = cpu_typing_context().resolve_value_type(pair.result)
        flags = flags_in_place_of(marked.function)
        augmented = compile_function(pair.augmented, (config, marker, *annotations), pair, flags)
        tape = tape_of_augmented(augmented, marked, pair, needs_primal=told.needs_primal)
        reverse, copied = _compile_reverse(marked, (config, result), annotations, pair, tape)
        changing = {of_result(k): leaf for k, leaf in enumerate(leaves_of(marked.result_type))}
        changing |= {i: a.value_type for i, a in enumerate(arguments) if request.overwritten[i]}
        return CompiledRule(
            **vars(called),
            result=result,
            result_activity=request.result,
            augmented=augmented,
            reverse=reverse,
            derivatives=derivative_paths(reverse, called, pair),
            saved=_saved(call, called, reverse),
            detachers=tuple(detachers_of(tape, changing, pair)),
            copied=copied,
            zero_result=pair.result_lowering == "zero value",
            keeps_value=pair.result is not Active
            and any(isinstance(leaf, types.Array) for leaf in leaves_of(marked.result_type))
            and reads_value(pair.reverse),
            new_shadow=_new_shadow(marked, pair, request),
        )


def _config(call: Served[RulePair, RuleRequest]) -> RuleConfig:
    """What the rule is told about the call."""
    pair, request, wholes = call.rule, call.request, wholes_of(call.marked)
    return RuleConfig(
        overwritten=tuple(whole.any_of(request.overwritten) for whole in wholes),
        needs_primal=request.needs_primal or pair.keeps_result,
        # a rule for a Duplicated result makes the shadow that `dret` will have, in any case
        needs_shadow=request.needs_shadow or pair.result in (Duplicated, MixedDuplicated),
        **vars(request.options),
        written=tuple(whole.any_of(call.written) for whole in wholes),
    )


def _saved(
    call: Served[RulePair, RuleRequest], called: CalledFunction, reverse: Any
) -> tuple[SavedArgument, ...]:
    """The memory that the reverse reads, and that may have been overwritten by then.

    What the rule does not name in `saves` the reverse finds as the augmented primal left it.
    """
    read = {i for k in call.rule.saves for i in called.parameters[k].parts}
    changed = {i for i, overwritten in enumerate(call.request.overwritten) if overwritten}
    unsaved = set[int]()
    if not is_trusted(call.rule):
        unsaved = _read_by(call.rule.reverse, reverse, called, changed - read)
    return tuple(
        SavedArgument(
            index=i,
            copy=compile_function(copy_of, (argument.value_type,), call.rule),
            restored=_restored(argument, call.written[i]),
            after=i in unsaved,
        )
        for i, argument in enumerate(called.arguments)
        if i in read | unsaved
        and (i in changed or call.written[i])
        and is_copied_memory(call.marked, argument.name, argument.value_type)
    )


# the number of parameters of a reverse before those for the arguments: `config`, `dret`, `tape`
_LEADING = 3


def _read_by(function: Any, compiled: Any, called: CalledFunction, indices: set[int]) -> set[int]:
    """The arguments at `indices` whose memory a reverse may read; `compiled` is the compile result
    of this function.
    """
    arguments, parameters = called.arguments, dict(enumerate(called.parameters, _LEADING))
    arrays = {i for i in indices if isinstance(arguments[i].value_type, types.Array)}
    objects = {i for i in indices - arrays if leads_to_memory(arguments[i].value_type)}
    whole = {k: p for k, p in parameters.items() if arrays & set(p.parts)}
    read = arguments_read(compiled, {k: p.value_type for k, p in whole.items()}) if whole else set()
    return (arrays & {i for k in read for i in whole[k].parts}) | {
        i for k, p in parameters.items() for i in objects & set(p.parts) if reads_value(function, k)
    }


def _restored(argument: RuleArgument, written: bool) -> Any:
    """The function from a saved copy to the argument of the reverse; None if that is the copy.

    The reverse may run again with the same copy, so it must not write into that.
    """
    ty: Any = argument.value_type
    if not isinstance(ty, types.Array):
        return copy_alone if written else None
    if written:
        return copy_in_place
    has_shadow = argument.activity == "duplicated" and argument.annotation.dval is not None
    return in_layout_of if has_shadow and ty.layout == "A" else None


def _new_shadow(marked: MarkedCall, pair: RulePair, request: RuleRequest) -> Any:
    """The function that makes more shadows of the result, if the rule promises that one run serves
    all. It copies, since signs of zeros may carry information (`rules.library.repeated`).
    """
    if pair.keeps_shadow or request.result != "duplicated":
        return None
    ty = marked.result_type
    is_plain = isinstance(ty, types.Array) and ty.layout == "C"
    return compile_function(copy_of if is_plain else make_zero_of, (ty,), pair)


def checks_of(call: Served[Any, Any], arguments: Sequence[RuleArgument]) -> RuleChecks:
    """What is checked when a function of a rule runs for this call."""
    return RuleChecks(
        None if call.noalias else alias_check(call.marked),
        _alike_check(call.marked, call.rule.result),
        _shared_checks(call.marked, arguments, call.written),
        object_checks(call.marked, arguments),
        _failure_checks(call, arguments),
    )


def _failure_checks(
    call: Served[Any, Any], arguments: Sequence[RuleArgument]
) -> tuple[tuple[int, str], ...]:
    """The checks that a function whose exception is caught has not changed its arguments before."""
    if not call.request.caught:
        return ()
    name = call.marked.name
    return tuple(
        (
            i,
            f"{name} raised an exception that the program catches, after it, or its rule, may have "
            f"written into its argument {argument.name}: only whole calls of a rule have "
            f"derivatives. Let {name} raise before it writes, or pass a copy",
        )
        for i, (argument, written) in enumerate(zip(arguments, call.written, strict=True))
        if written and argument.activity == "duplicated"
    )


def _alike_check(marked: MarkedCall, result: type[Annotation]) -> Any:
    """The check of a returned array and its shadow; None if the result has no shadow."""
    if result in (Const, Active):
        return None
    return alike(
        f"the shadow that the rule of {marked.name} returns does not have the shape and strides of "
        "the primal; ar.make_zero(y) has them"
    )


def _shared_checks(
    marked: MarkedCall, arguments: Sequence[RuleArgument], written: Sequence[bool]
) -> tuple[SharedCheck, ...]:
    """The checks of pairs of arrays or objects with derivatives, one of which may be written."""
    memory = [
        i
        for i, a in enumerate(arguments)
        if a.activity != "const" and (_is_array(a.value_type) or is_object(a.value_type))
    ]
    # One text for all pairs, so that compiled code depends on their types only.
    message = (
        f"two {{}} passed to {marked.name} share memory that it writes into: its rule takes them "
        "for separate"
    )
    checks: list[SharedCheck] = []
    for pair in itertools.combinations(memory, 2):
        if not (written and any(written[i] for i in pair)):
            continue
        # an array first, since it can be copied
        i, j = sorted(pair, key=lambda k: not _is_array(arguments[k].value_type))
        first, second = arguments[i].value_type, arguments[j].value_type
        before, after = kept_if_shared, unwritten(message.format("arrays"))
        if not _is_array(first):
            shared = f"two objects passed to {marked.name}, which may write into them, share memory"
            before, after = (
                objects_apart(f"{shared}: its rule takes them for separate"),
                nothing_kept,
            )
        elif not _is_array(second):
            after = unwritten(message.format("arguments"))
        checks.append(SharedCheck((i, j), before, after))
    return tuple(checks)


def _is_array(ty: Any) -> bool:
    return is_number_array(ty) and ty.ndim > 0


def alias_check(marked: MarkedCall) -> Any:
    """The check that a returned array shares no memory with an argument or another array."""
    is_one_array = len(array_types(marked.result_type)) == 1
    more = "or with its own shadow" if is_one_array else "with another array, or with a shadow"
    return apart(
        f"what {marked.name} or its rule returns shares memory with an argument, {more}; "
        "return a copy"
    )


def rule_arguments(
    marked: MarkedCall, rule: Chosen, request: RuleRequest | ForwardRuleRequest, width: int = 1
) -> tuple[RuleArgument, ...]:
    """The arguments of a call as the engine sees them, with tuples with arrays split into parts.

    An argument that the rule takes as a batch has `width` shadows.
    """
    flat = flattened(marked)
    kinds = [
        (kind, whole.is_split)
        for whole, kind in zip(wholes_of(marked), rule.arguments, strict=True)
        for _ in whole.parts
    ]
    return tuple(
        RuleArgument(
            name=name,
            passed=ty,
            value_type=plain_type(ty),
            activity=activity,
            annotation=annotation_type(
                part_kind(kind, ty) if split else kind, plain_type(ty), width
            ),
        )
        for name, ty, activity, (kind, split) in zip(
            flat.argument_names, flat.signature.args, request.activities, kinds, strict=True
        )
    )


def parameters_of(marked: MarkedCall, rule: Chosen, width: int = 1) -> tuple[RuleParameter, ...]:
    """The parameters of the rule, for the arguments of a call."""
    return tuple(
        RuleParameter(
            name=whole.name,
            value_type=plain_type(whole.numba_type),
            annotation=annotation_type(kind, plain_type(whole.numba_type), width),
            parts=whole.parts,
            is_split=whole.is_split,
        )
        for whole, kind in zip(wholes_of(marked), rule.arguments, strict=True)
    )


def _compile_reverse(
    marked: MarkedCall,
    leading: tuple[types.Type, ...],
    annotations: tuple[types.Type, ...],
    pair: RulePair,
    tape: types.Type,
) -> tuple[Any, tuple[types.Type, ...]]:
    """The compiled reverse, and the types of the arrays and lists of its tape that it gets copies
    of, as it might write into them.

    Numba's read-only array types refuse most writes, and LLVM proves the absence of others.
    """
    wanted, found = pair.tape_type, type_name(tape)
    if isinstance(wanted, types.Type) and not converts(tape, wanted):
        takes = type_name(wanted)
        raise TapeMismatch(
            f"the tape of {pair.name} is {found}, and its reverse takes {takes}",
            where=[
                rule_location(pair.augmented, ()),
                rule_location(pair.reverse, ()),
            ],
            instead=[f"return a tape of type {takes}", f"annotate `tape` with {found}"],
        )
    arrays = tuple({leaf for leaf in leaves_of(tape) if isinstance(leaf, types.Array)})
    lists = () if is_trusted(pair) else lists_of(tape)
    flags = flags_beside(marked.function)
    if arrays and not is_trusted(pair):
        # For `tape *= 2` of a read-only array Numba has no error of its own: an AttributeError.
        with suppress(NotCompilable, AttributeError):
            args = (*leading, frozen(tape), *annotations)
            reverse = compile_function(pair.reverse, args, pair, flags)
            return reverse, lists + (() if only_reads_arrays(reverse, len(leading)) else arrays)
    try:
        reverse = compile_function(pair.reverse, (*leading, tape, *annotations), pair, flags)
        return reverse, () if is_trusted(pair) else arrays + lists
    except NotCompilable as error:
        if not speaks_of_tape(error.why, pair.reverse, tape):
            raise
        raise TapeMismatch(
            f"the reverse of {pair.name} cannot use the tape its augmented primal makes: {found}",
            where=error.where,
            why=error.why,
            instead=["make both halves agree on what the tape holds"],
        ) from error
