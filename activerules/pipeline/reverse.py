"""From a Python function and an activity signature to the LLVM IR of its gradient.

The whole flow on one screen:

    capture -> normalise -> parse -> plan (all analyses) -> derive -> verify

Every stage is timed; `ACTIVERULES_DUMP=<stage>` (or `all`) prints the result of a stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from activerules.errors import ActiverulesError
from activerules.fallbacks import Fallback
from activerules.ir.generate.assemble import generate
from activerules.ir.generate.gradient import uses_tape
from activerules.ir.generate.split import memory_size
from activerules.ir.generate.widen import widened
from activerules.ir.llvm.model import Function, Module
from activerules.ir.normal.reading import copies_of, read_module
from activerules.ir.plan.layout import Layout
from activerules.ir.plan.marked import only_returned
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.text.normalise import normalise
from activerules.numba_ext.calls.checks import require_float_return
from activerules.numba_ext.replaced.replaced import changing_arguments
from activerules.numba_ext.rules.rule_compiler import NumbaRuleCompiler
from activerules.numba_ext.target.capture import Captured, capture
from activerules.numba_ext.target.derivative import (
    CompiledDerivative,
    DerivativeSpec,
)
from activerules.pipeline.frozen_arrays import warn_frozen
from activerules.pipeline.ordinary import generate_ordinary
from activerules.pipeline.requests import (
    argument_of,
    derived,
    is_written,
    make_request,
    seeded_return,
    with_options,
    with_scratch,
)
from activerules.pipeline.stages import STEM, Stages, finish, locate
from activerules.pipeline.unserved_calls import warn_missed
from activerules.rules import library  # noqa: F401  defines the rules that come with it
from activerules.rules.registry import RULES
from activerules.rules.views import REVERSE_VIEW, RuleView
from activerules.values.kinds import returned_type
from activerules.values.layout import ValueActivity

# the part of a symbol that marks the version for overlapping arguments
CONSERVATIVE = ".conservative"


@dataclass(frozen=True, eq=False)
class Derivation:
    """A gradient and the results of the stages that made it, for `explain`."""

    gradient: CompiledDerivative
    captured: Captured
    module: Module
    plan: Plan
    layout: Layout
    stages: Stages
    fallbacks: tuple[Fallback, ...] = ()


def derive(function: Any, spec: DerivativeSpec, *, view: RuleView = REVERSE_VIEW) -> Derivation:
    """Derive the gradient of a function; the result includes that of every stage.

    `view`: the rules that capture sees.

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    return derived(_derive, function, spec, view)


def _derive(dispatcher: Any, spec: DerivativeSpec, view: RuleView) -> Derivation:
    split, options = spec.mode == "split", spec.options
    stage = Stages(dispatcher.py_func.__name__)
    captured = stage("capture", capture, dispatcher, spec.argtypes, rules=view)
    if spec.return_activity == "active" and not split:
        returned = returned_type(captured.signature.return_type)
        require_float_return(dispatcher, returned, holomorphic="holomorphic" in options)
    text = stage("normalise", normalise, captured.text, captured.symbol)
    module = stage("parse", read_module, text, captured.symbol)
    rules = NumbaRuleCompiler(captured.marked, RULES)
    try:
        plan, conservative, scratch = stage(
            "plan",
            _planned,
            captured,
            copies_of(module, text, captured.symbol),
            spec,
            rules,
            changing_arguments(dispatcher),
        )
        module = plan.request.module
        stage.apart("rules", "plan", rules.seconds)
        plan, conservative = _widened(plan, conservative, spec.width)
        ordinary = None
        # where this is differentiated again, forward rules serve functions that are followed here
        alone = not captured.followed
        if spec.again and alone and conservative is None and not options and not scratch:
            ordinary = stage("derive", generate_ordinary, plan)
        if ordinary is not None:
            plan, layout, memory = ordinary.plan, ordinary.layout, 0
            functions, declarations = ordinary.functions, ordinary.declarations
        else:
            functions, declarations, layout, memory = _generated(stage, plan, conservative)
    except ActiverulesError as error:
        locate(error, module, captured)
        raise
    warn_frozen(dispatcher)
    warn_missed(captured.followed, rules.missed)
    text, name = finish(stage, captured, module, functions, declarations, options, rules)
    suffix = ".split" if split else ".gradient"
    deferred = spec.deferred and _assumes(plan)
    symbol = name + (CONSERVATIVE if conservative or deferred else "") + suffix
    gradient = CompiledDerivative(
        symbol=name + suffix,
        conservative_symbol=symbol if conservative or deferred or _overlap_matters(plan) else None,
        assumption_symbol=name + ".holds" if plan.assumptions else None,
        deferred=deferred,
        text=text,
        result_type=returned_type(captured.signature.return_type),
        return_activity=seeded_return(captured, spec.return_activity),
        parameters=tuple(p.activity for p in plan.request.parameters),
        scratch=tuple(k in scratch for k in range(len(spec.activities))),
        written=tuple(is_written(plan, k) for k in range(len(spec.activities))),
        libraries=rules.libraries(text),
        environments=captured.environments,
        memory=memory if split else 0,
        width=plan.request.width,
        options=options,
        returns_of_rule=any(only_returned(use.call, use.info, plan) for use in plan.rules.values()),
        ordinary=ordinary is not None,
        expensive=ordinary is not None and ordinary.expensive,
    )
    return Derivation(gradient, captured, module, plan, layout, stage)


def _generated(
    stage: Stages, plan: Plan, conservative: Plan | None
) -> tuple[list[Function], dict[str, str], Layout, int]:
    """The functions of both plans, their declarations, the layout of the first plan's tape, and the
    size in bytes of a tape in split mode. The conservative version rarely runs and is kept small:
    LLVM must not vectorise it, since with `minsize` its cost models may disagree about loops whose
    rest would be masked (two arrays read backwards), and an assertion ends the process.
    """
    functions, declarations, layout = stage("derive", generate, plan)
    memory = memory_size(layout, uses_tape(functions))
    if conservative is not None:
        of_overlap, added, its_layout = stage("derive", generate, conservative)
        for function in of_overlap:
            if "alwaysinline" not in function.suffix:
                function.suffix += " cold minsize optsize noimplicitfloat"
        memory = max(memory, memory_size(its_layout, uses_tape(of_overlap)))
        functions, declarations = functions + of_overlap, declarations | added
    return functions, declarations, layout, memory


def _planned(
    captured: Captured,
    modules: Iterator[Module],
    spec: DerivativeSpec,
    rules: NumbaRuleCompiler,
    changing: frozenset[int],
) -> tuple[Plan, Plan | None, frozenset[int]]:
    """The plan, the plan for overlapping arguments if it differs, and the Const arguments that need
    a scratch shadow.
    """

    def make(shadowed: tuple[ValueActivity, ...]) -> tuple[Plan, Plan | None]:
        request = make_request(
            captured, next(modules), shadowed, spec.return_activity, rules, changing=changing
        )
        split = spec.mode == "split"
        request = replace(
            with_options(request, spec.options),
            split=split,
            checked=not split,
            needs_primal=spec.needs_primal,
        )
        plan = make_plan(request)
        if spec.deferred and _assumes(plan):
            return plan, None
        conservative = _without_assumptions(plan)
        if conservative is None or _essence(conservative) == _essence(plan):
            request = replace(plan.request, separate=not _overlap_matters(plan))
            plan = replace(conservative or plan, request=request, assumptions=())
            conservative = None
        return plan, conservative

    (plan, conservative), scratch = with_scratch(captured, spec.activities, make)
    return plan, conservative, scratch


def _widened(plan: Plan, conservative: Plan | None, width: int) -> tuple[Plan, Plan | None]:
    """The plans for `width` lanes, or unchanged if one of them is possible for one lane only."""
    wide = widened(plan, width)
    wide_conservative = widened(conservative, width) if conservative is not None else None
    if width == 1 or wide is None or (conservative is not None and wide_conservative is None):
        return plan, conservative
    return wide, wide_conservative


def _without_assumptions(plan: Plan) -> Plan | None:
    """The plan that makes no assumptions, not even that arguments are disjoint; None: `plan`."""
    if not _assumes(plan):
        return None
    name = STEM + CONSERVATIVE
    request = replace(plan.request, disjoint=False, separate=False, checked=False, name=name)
    return make_plan(request, rewritten=plan)


def _assumes(plan: Plan) -> bool:
    """Whether a plan is right only for disjoint arguments, or under other assumptions."""
    return _overlap_matters(plan) or bool(plan.assumptions)


def _essence(plan: Plan) -> tuple[object, ...]:
    """What two plans of one function must differ in for both to be compiled: the tape, the requests
    to rules, or which cotangents are summed before they are added to shadows.
    """
    rules = [use.request for use in plan.rules.values()]
    # plans of callees work on their own copies of the functions: no two are equal
    homes = {node: (plan.home(node), plan.table(node) is None) for node in plan.cache.kept}
    sums = {i: window.arms for i, window in plan.windows.items()}, plan.rows, plan.added_if_chosen
    return homes, plan.retained, rules, plan.pairs, sums


def _overlap_matters(plan: Plan) -> bool:
    """Whether there are two arrays, one of them written; otherwise, overlap changes no result."""
    pointers = [p for p in plan.request.parameters if p.argument.type.is_pointer]
    groups = {
        p.group: k
        for p in (*pointers, *plan.request.pointees)
        if (k := argument_of(p.group)) is not None
    }
    return len(groups) > 1 and any(is_written(plan, k) for k in set(groups.values()))
