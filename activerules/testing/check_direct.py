"""Checks of `rrule` and `frule`, for `check_rule`; for them objects are constants."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from activerules.annotations.activity import Const, Duplicated
from activerules.annotations.tangents import NoTangent
from activerules.annotations.thunks import extern
from activerules.callables import parameters_of
from activerules.chainrules import frule, rrule
from activerules.rules.registry import RULES
from activerules.testing.halves import tangent_of
from activerules.testing.numeric import is_differentiable
from activerules.testing.reference import Reference
from activerules.testing.situations import Situation
from activerules.testing.trees import is_object, opened


def check_direct(reference: Reference) -> bool:
    """Check the results, cotangents and tangents of direct calls; return whether there was one.

    Fields of StructRefs are not known to Python.
    """
    if any(opened(x) is not x for x in reference.values):
        return False
    inactive = RULES.inactive_arguments(reference.f, parameters_of(reference.f))
    varies = [
        is_differentiable(a.value) and not is_object(a.value) and a.kinds != (Const,)
        for a in reference.arguments
    ]
    varies = [each and i not in inactive for i, each in enumerate(varies)]
    if not any(varies):
        return False
    kinds = tuple(Duplicated if each else Const for each in varies)
    situation = Situation(kinds, Duplicated, (False,) * len(kinds), direct="rrule")
    copies = reference.copies()
    pulled = rrule(reference.f, *copies)
    if pulled is not None:
        reference.same("result of rrule", pulled[0], reference.result, situation)
        check_cotangents(reference, extern(pulled[1](reference.result_bar)), situation)
    own = [tangent_of(v, each) for v, each in zip(reference.directions, varies, strict=True)]
    copies = reference.copies()  # rrule may have written to them
    pushed = frule((NoTangent(), *own), reference.f, *copies)
    if pushed is not None:
        here = replace(situation, direct="frule")
        reference.same("result of frule", pushed[0], reference.result, here)
        compare_pushed(reference, extern(pushed[1]), here)
    return pulled is not None or pushed is not None


def compare_pushed(reference: Reference, dy: Any, situation: Situation) -> None:
    """Compare the tangent that an frule returns; what it writes into arguments is ignored."""
    active = situation.differentiated
    terms = reference.paired("tangent of the result", dy, reference.result_bar, situation)
    expected = math.fsum(float(reference.slopes[i][0][0]) for i in active)
    error = math.fsum(reference.slopes[i][1] for i in active)
    reference.compare(active[0], terms, expected, error, situation, "tangent of the result")


def check_cotangents(reference: Reference, entries: tuple[Any, ...], situation: Situation) -> None:
    """Check the entries that a pullback returns: one for the function, one per argument."""
    if len(entries) != len(reference.values) + 1:
        raise reference.failure(
            "pullback", f"{len(entries)} entries", len(reference.values) + 1, situation
        )
    for i, entry in enumerate(entries[1:]):
        if situation.kinds[i] is Const:
            continue
        what = f"cotangent of argument {i}"
        terms = reference.paired(what, entry, reference.directions[i], situation)
        parts, error = reference.slopes[i]
        reference.compare(i, terms, float(parts[0]), error, situation)
