"""Checks of what the functions of a rule wrote and returned, compiled into their callers.

Needs       a `RuleCaller` whose code is being emitted; it has the checks that were chosen
Gives       `checked`: checks around a call; `call_of_rule`: the call, and a check if it fails;
            `identities`: what is noted before it;
            `check_objects`, `check_apart`, `check_alike`: code that returns an error after it
Invariants  W2 and W3 of `wrap`
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

from numba.core import cgutils, types

from activerules.numba_ext.codegen.protocols import Value
from activerules.numba_ext.rules.caller import RuleCaller
from activerules.numba_ext.rules.checks import copy_of, failed, unchanged
from activerules.numba_ext.rules.compiled import ObjectCheck, one_shadow
from activerules.numba_ext.rules.objects import identity_of, release_shadow, retain_shadow
from activerules.numba_ext.rules.parts import leaves_in
from activerules.numba_ext.rules.results import arrays_in
from activerules.values.extents import extent_of
from activerules.values.kinds import is_object


@contextmanager
def checked(caller: RuleCaller, fields: Sequence[Any]) -> Generator[list[list[Any]], None, None]:
    """Around the call of a rule: check what it wrote. Yields the identities of objects."""
    shared = _keep_shared(caller)
    objects = identities(caller, fields)
    yield objects
    _check_shared(caller, shared)
    check_objects(caller, fields, objects)


def call_of_rule(
    caller: RuleCaller, compiled: Any, args: Sequence[Any], fields: Sequence[Any]
) -> Any:
    """Call a function of a rule. If it fails, and the program catches that, it must not have
    changed an argument or its shadow: there is no derivative of what it did before.
    """
    leaves = [
        (message, *leaf)
        for index, message in caller.checks.failures
        for value, ty in zip(fields[index], caller.arguments[index].annotation.fields, strict=True)
        for leaf in leaves_in(caller.builder, ty, value)
    ]
    checks: list[tuple[Any, list[Any]]] = []
    for message, ty, value in leaves:
        if isinstance(ty, types.Array) and not isinstance(ty.dtype, types.Record):
            copier = caller.helper(copy_of, ty)
            copy, copy_type = caller.call(copier, [value]), copier.signature.return_type
            caller.scratch.append((copy_type, copy))
            checks.append((caller.helper(unchanged(message), ty, copy_type), [value, copy]))
        elif not isinstance(ty, types.Number | types.Boolean):
            checks.append((caller.helper(failed(message)), []))

    def check() -> None:
        for function, values in checks:
            caller.check(function, values)

    return caller.call(compiled, args, check=check)


def _keep_shared(caller: RuleCaller) -> list[tuple[types.Type, Any]]:
    """Copies of the contents of arguments that share memory with others, with their types."""
    copies: list[tuple[types.Type, Any]] = []
    for check in caller.checks.shared:
        keep = caller.helper(check.keep, *(caller.arguments[i].value_type for i in check.indices))
        value = caller.check(keep, [caller.primals[i] for i in check.indices])
        copies.append((keep.signature.return_type, value))
        caller.scratch.append(copies[-1])
    return copies


def _check_shared(caller: RuleCaller, copies: Sequence[tuple[types.Type, Any]]) -> None:
    """Return an error if the rule wrote into memory that two arguments share."""
    for check, (ty, before) in zip(caller.checks.shared, copies, strict=True):
        index = check.indices[0]
        compiled = caller.helper(check.check, caller.arguments[index].value_type, ty)
        caller.check(compiled, [caller.primals[index], before])


def identities(caller: RuleCaller, fields: Sequence[Any]) -> list[list[Any]]:
    """The identities of each object and of its shadow."""
    noted: list[list[Any]] = []
    for check in caller.checks.objects:
        primal, *shadow = _identified(caller, check, fields)
        of = caller.arguments[check.index].value_type
        known = [caller.call(caller.helper(identity_of, of), [primal])]
        for dual in shadow:
            known.append(caller.call(caller.helper(retain_shadow, of), [dual]))
            release = caller.helper(release_shadow, of, types.intp)
            caller.retained.append((release, [dual, known[-1]]))
        noted.append(known)
    return noted


def _identified(caller: RuleCaller, check: ObjectCheck, fields: Sequence[Any]) -> Sequence[Any]:
    """An object and its shadow; without the shadow if there are several."""
    annotation = caller.arguments[check.index].annotation
    is_batch = annotation.dval is not None and annotation.dval != one_shadow(annotation)
    return fields[check.index][:1] if is_batch else fields[check.index]


def check_objects(caller: RuleCaller, fields: Sequence[Any], before: Sequence[Any]) -> None:
    """Return an error if a rule replaced parts of an object or of its shadow."""
    caller.release_retained()
    caller.retained.clear()
    for check, known in zip(caller.checks.objects, before, strict=True):
        for which, (value, then) in enumerate(zip(fields[check.index], known, strict=False)):
            check_object(caller, check, value, then, which)


def check_object(
    caller: RuleCaller, check: ObjectCheck, value: Value, before: Any, which: int
) -> None:
    """Return an error if parts of an object were replaced."""
    now = caller.call(caller.helper(identity_of, caller.arguments[check.index].value_type), [value])
    unchanged = caller.helper(check.unchanged, types.intp, types.intp, types.intp)
    caller.check(unchanged, [now, before, cgutils.intp_t(which)])


def check_apart(
    caller: RuleCaller, result: tuple[Any, types.Type], others: Sequence[tuple[Any, types.Type]]
) -> None:
    """Return an error if an array of a result shares memory with another array of it, or with one
    of `others`, unless that is known not to happen.
    """
    check = caller.checks.apart
    if check is None or result[1] == types.none:
        return
    parts = [leaf for value, ty in others for leaf in leaves_in(caller.builder, ty, value)]
    parts = [leaf for leaf in parts if isinstance(leaf[0], types.Array) or is_object(leaf[0])]
    own = _arrays_of(caller, result)
    pairs = [(left, right) for k, left in enumerate(own) for right in (*own[k + 1 :], *parts)]
    if not pairs:
        return
    meet = reduce(caller.builder.or_, [may_meet(caller, *pair) for pair in pairs])
    with caller.builder.if_then(meet, likely=False), caller.one_exit():
        for (ty, value), (right_type, right) in pairs:
            caller.check(caller.helper(check, ty, right_type), [value, right])


def may_meet(
    caller: RuleCaller, left: tuple[types.Type, Value], right: tuple[types.Type, Value]
) -> Value:
    """Whether two values may share memory, by the extents of two arrays: most calls of a rule
    then need no compiled check, which costs as much as the product of two short rows.
    """
    if not all(isinstance(ty, types.Array) for ty, _ in (left, right)):
        return cgutils.true_bit
    mine, its = (
        extent_of(
            caller.builder,
            ty,
            caller.context.make_array(ty)(caller.context, caller.builder, value),
        )
        for ty, value in (left, right)
    )
    return mine.meets(its, caller.builder)


def _arrays_of(caller: RuleCaller, result: tuple[Any, types.Type]) -> list[tuple[types.Array, Any]]:
    """The arrays of a result, or of its shadow, with the types of the result."""
    value, ty = result
    value = caller.cast(value, ty, caller.return_type)
    return list(arrays_in(caller.builder, caller.return_type, value))


def check_alike(
    caller: RuleCaller, result: tuple[Any, types.Type], shadow: tuple[Any, types.Type]
) -> None:
    """Return an error if a shadow does not have the shape and strides of its array."""
    check = caller.checks.alike
    if check is None:
        return
    for (ty, primal), (_, dual) in zip(
        *map(partial(_arrays_of, caller), (result, shadow)), strict=True
    ):
        caller.check(caller.helper(check, ty, ty), [primal, dual])
