"""From a Python function and an activity signature to the LLVM IR of its forward derivative.

    capture -> normalise -> parse -> plan (all analyses) -> derive -> verify

as in `pipeline.reverse`, without a tape: nothing is kept, and nothing is undone. A call is marked
for its rules only if there is a forward rule; a function that has only a reverse rule is
differentiated through its body.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from activerules.errors import ActiverulesError
from activerules.fallbacks import Fallback
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.ir.generate.assemble import generate_forward
from activerules.ir.llvm.model import Module
from activerules.ir.normal.reading import copies_of, read_module
from activerules.ir.plan.forward_plan import ForwardPlan, make_forward_plan
from activerules.ir.plan.marked import only_returned
from activerules.ir.text.normalise import normalise
from activerules.numba_ext.calls.forward_checks import has_tangent
from activerules.numba_ext.replaced.replaced import changing_arguments
from activerules.numba_ext.rules.rule_compiler import NumbaRuleCompiler
from activerules.numba_ext.target.capture import Captured, capture
from activerules.numba_ext.target.derivative import (
    CompiledDerivative,
    DerivativeSpec,
)
from activerules.pipeline.frozen_arrays import warn_frozen
from activerules.pipeline.requests import (
    derived,
    is_written,
    make_request,
    with_options,
    with_scratch,
)
from activerules.pipeline.stages import Stages, finish, locate
from activerules.pipeline.unserved_calls import warn_missed
from activerules.rules import library  # noqa: F401  defines the rules that come with it
from activerules.rules.registry import RULES
from activerules.rules.views import FORWARD_VIEW, RuleView
from activerules.values.kinds import returned_type
from activerules.values.layout import ValueActivity


@dataclass(frozen=True)
class ForwardDerivation:
    """A forward derivative and how it came about, for `explain`."""

    gradient: CompiledDerivative
    captured: Captured
    module: Module
    plan: ForwardPlan
    stages: Stages
    fallbacks: tuple[Fallback, ...] = ()


def derive_forward(
    function: Any, spec: DerivativeSpec, *, view: RuleView = FORWARD_VIEW
) -> ForwardDerivation:
    """Derive the forward derivative of a function, with the results of every stage.

    `view`: the registry as forward mode sees it.

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    return derived(_derive, function, spec, view)


def _derive(dispatcher: Any, spec: DerivativeSpec, view: RuleView) -> ForwardDerivation:
    stage = Stages(dispatcher.py_func.__name__)
    captured = stage("capture", capture, dispatcher, spec.argtypes, rules=view)
    result_type = returned_type(captured.signature.return_type)
    seeded = spec.return_activity != "const" and has_tangent(result_type)
    returned: ActivityName = "duplicated" if seeded else "const"
    text = stage("normalise", normalise, captured.text, captured.symbol)
    module = stage("parse", read_module, text, captured.symbol)
    modules = copies_of(module, text, captured.symbol)
    rules = NumbaRuleCompiler(captured.marked, RULES)

    def make(shadowed: tuple[ValueActivity, ...]) -> ForwardPlan:
        request = make_request(
            captured,
            next(modules),
            shadowed,
            returned,
            rules,
            forward=True,
            changing=changing_arguments(dispatcher),
        )
        # arguments may overlap if their shadows overlap alike: nothing is kept that could change
        request = replace(
            with_options(request, spec.options),
            width=spec.width,
            separate=False,
            needs_primal=spec.needs_primal,
        )
        return make_forward_plan(request)

    try:
        plan, scratch = stage("plan", with_scratch, captured, spec.activities, make)
        module = plan.request.module
        stage.apart("rules", "plan", rules.seconds)
        functions, declarations = stage("derive", generate_forward, plan)
    except ActiverulesError as error:
        locate(error, module, captured)
        raise
    warn_frozen(dispatcher)
    warn_missed(captured.followed, rules.missed)
    text, name = finish(stage, captured, module, functions, declarations, spec.options, rules)
    gradient = CompiledDerivative(
        symbol=name + ".forward",
        conservative_symbol=name + ".forward",
        text=text,
        result_type=result_type,
        return_activity=returned,
        parameters=tuple(p.activity for p in plan.request.parameters),
        scratch=tuple(k in scratch for k in range(len(spec.activities))),
        written=tuple(is_written(plan, k) for k in range(len(spec.activities))),
        libraries=rules.libraries(text),
        environments=captured.environments,
        width=spec.width,
        sources=rules.sources,
        options=spec.options,
        called=rules.called,
        returns_of_rule=any(only_returned(c, use.info, plan) for c, use in plan.rules.items()),
    )
    return ForwardDerivation(gradient, captured, module, plan, stage)
