"""From a Python function and an activity signature to the LLVM IR of its forward derivative.

    capture -> normalise -> parse -> plan (all analyses) -> derive -> verify

as in `pipeline`, without a tape: nothing is kept, and nothing is undone. A call is kept for its
rules only where there is a forward rule; of a function that has a reverse rule only, forward mode
sees the body.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

from numba import types

from activerules.errors import ActiverulesError
from activerules.frozen import warn_frozen
from activerules.ir.derive.assemble import generate_forward
from activerules.ir.derive.forward_plan import ForwardPlan, make_forward_plan
from activerules.ir.derive.marked import only_returned
from activerules.ir.model import Module
from activerules.ir.normalise import normalise
from activerules.ir.reading import read_module
from activerules.ir.rulecall import ActivityName
from activerules.numba_ext.capture import Captured, as_dispatcher, capture
from activerules.numba_ext.forward_checks import has_tangent
from activerules.numba_ext.gradient import Gradient
from activerules.numba_ext.kinds import returned_type
from activerules.numba_ext.replaced import changing_arguments, derived
from activerules.numba_ext.rulecompile import NumbaRuleCompiler
from activerules.requests import is_written, make_request, with_options, with_scratch
from activerules.rules import library  # noqa: F401  defines the rules that come with it
from activerules.rules.registry import RULES
from activerules.rules.views import FORWARD_VIEW, SECOND_VIEW
from activerules.stages import Stages, finish, locate
from activerules.unserved import warn_followed, warn_unserved


@dataclass(frozen=True)
class ForwardDerivation:
    """A forward derivative and how it came about, for `explain`."""

    gradient: Gradient
    captured: Captured
    module: Module
    plan: ForwardPlan
    stages: Stages


_compiled: weakref.WeakKeyDictionary[Any, dict[Any, Gradient]] = weakref.WeakKeyDictionary()


def compile_forward(
    function: Any,
    argtypes: tuple[types.Type, ...],
    activities: tuple[ActivityName, ...],
    *,
    wanted: bool,
    width: int,
    options: frozenset[str] = frozenset(),
    again: bool = False,
    needs_primal: bool = True,
) -> Gradient:
    """The forward derivative of `function` for these argument types and activities.

    `wanted`: the tangent of what it returns is asked for, if that has one; `again`: it is itself
    differentiated, and a pair of rules stands in for a forward rule that is missing. Without
    `needs_primal` nobody reads what it returns. It is compiled once per rule epoch.

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    dispatcher = as_dispatcher(function)
    known = _compiled.setdefault(dispatcher, {})
    key = (argtypes, activities, wanted, width, options, again, RULES.epoch)
    if (key, needs_primal) not in known:
        view = SECOND_VIEW if again else FORWARD_VIEW
        found = derive_forward(
            dispatcher, argtypes, activities, wanted, width, options,
            view=view, needs_primal=needs_primal,
        )  # fmt: skip
        warn_unserved(found.plan, found.module, found.captured.marked)
        warn_followed(found.captured.followed)
        serves = (needs_primal,) if found.gradient.returns_of_rule else (True, False)
        known.update({(key, asked): found.gradient for asked in serves})
    return known[key, needs_primal]


def derive_forward(
    dispatcher: Any,
    argtypes: tuple[types.Type, ...],
    activities: tuple[ActivityName, ...],
    wanted: bool,
    width: int,
    options: frozenset[str],
    *,
    view: Any = FORWARD_VIEW,
    needs_primal: bool = True,
) -> ForwardDerivation:
    """Take the whole way and keep what was found out; raises as `compile_forward`.

    `view`: the registry as forward mode sees it.
    """
    return derived(
        lambda one: _derive(
            one, argtypes, activities, wanted, width, options, view, needs_primal
        ),
        dispatcher,
        argtypes,
        view,
    )


def _derive(
    dispatcher: Any,
    argtypes: tuple[types.Type, ...],
    activities: tuple[ActivityName, ...],
    wanted: bool,
    width: int,
    options: frozenset[str],
    view: Any,
    needs_primal: bool,
) -> ForwardDerivation:
    stage = Stages()
    captured = stage("capture", capture, dispatcher, argtypes, rules=view)
    wanted = wanted and has_tangent(returned_type(captured.signature.return_type))
    text = stage("normalise", normalise, captured.text, captured.symbol)
    module = stage("parse", read_module, text, captured.symbol)
    rules = NumbaRuleCompiler(captured.marked, RULES)

    def make(shadowed: tuple[ActivityName, ...]) -> ForwardPlan:
        returned: ActivityName = "duplicated" if wanted else "const"
        request = make_request(
            captured, module, shadowed, returned, rules,
            forward=True, changing=changing_arguments(dispatcher),
        )  # fmt: skip
        # Arguments may overlap if their shadows do likewise: nothing is kept that could change.
        request = replace(
            with_options(request, options), width=width, separate=False, needs_primal=needs_primal
        )
        return make_forward_plan(request)

    try:
        plan, scratch = stage("plan", with_scratch, captured, activities, make)
        stage.apart("rules", "plan", rules.seconds)
        functions, declarations = stage("derive", generate_forward, plan)
    except ActiverulesError as error:
        locate(error, module, captured)
        raise
    warn_frozen(dispatcher)
    text, name = finish(stage, captured, module, functions, declarations, options, rules)
    gradient = Gradient(
        symbol=name + ".forward",
        conservative_symbol=name + ".forward",
        text=text,
        result_type=returned_type(captured.signature.return_type),
        return_activity="duplicated" if wanted else "const",
        parameters=tuple(p.activity for p in plan.request.parameters),
        scratch=tuple(k in scratch for k in range(len(activities))),
        written=tuple(is_written(plan, k) for k in range(len(activities))),
        libraries=rules.libraries(text),
        environments=captured.environments,
        width=width,
        sources=rules.sources,
        options=options,
        called=rules.called,
        returns_of_rule=any(only_returned(c, use.info, plan) for c, use in plan.rules.items()),
    )
    return ForwardDerivation(gradient, captured, module, plan, stage)


__all__ = ["ForwardDerivation", "compile_forward", "derive_forward"]
