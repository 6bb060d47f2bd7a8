"""From a Python function and an activity signature to the LLVM IR of its gradient.

The plan and the functions of reverse mode; `pipeline.derivation` has the whole flow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from activerules.ir.derivatives.rulecall import ActivityName
from activerules.ir.generate.assemble import generate
from activerules.ir.generate.gradient import uses_tape
from activerules.ir.generate.split import memory_size
from activerules.ir.generate.widen import widened
from activerules.ir.llvm.model import Function
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.numba_ext.calls.checks import require_float_return
from activerules.numba_ext.target.capture import Captured
from activerules.numba_ext.target.derivative import Again, DerivativeSpec, Versions
from activerules.pipeline.derivation import Derivation, Generated, Steps, derive_by
from activerules.pipeline.ordinary import generate_ordinary
from activerules.pipeline.requests import Source, argument_of, is_written, seeded_return
from activerules.pipeline.stages import STEM, Stages
from activerules.rules.views import REVERSE_VIEW, RuleView
from activerules.values.kinds import returned_type
from activerules.values.layout import ValueActivity

# the part of a symbol that marks the version for overlapping arguments
CONSERVATIVE = ".conservative"


def derive(
    function: Any, spec: DerivativeSpec, *, view: RuleView = REVERSE_VIEW
) -> Derivation[Plan]:
    """Derive the gradient of a function; the result includes that of every stage.

    `view`: the rules that capture sees.

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    return derive_by(Steps(_returned, _planned, _generated), function, spec, view)


def _returned(dispatcher: Any, captured: Captured, spec: DerivativeSpec) -> ActivityName:
    if spec.return_activity == "active" and spec.mode != "split":
        returned = returned_type(captured.signature.return_type)
        require_float_return(dispatcher, returned, holomorphic="holomorphic" in spec.options)
    return seeded_return(captured, spec.return_activity)


def _planned(source: Source, activities: tuple[ValueActivity, ...]) -> tuple[Plan, ...]:
    """The plan, and the plan for overlapping arguments if it differs."""
    plan = make_plan(source.request(activities))
    if source.spec.deferred and _assumes(plan):
        return (plan,)
    conservative = _without_assumptions(plan)
    if conservative is not None and _essence(conservative) != _essence(plan):
        return plan, conservative
    caller = replace(plan.request.caller, separate=not _overlap_matters(plan))
    request = replace(plan.request, caller=caller)
    return (replace(conservative or plan, request=request, assumptions=()),)


def _generated(source: Source, plans: tuple[Plan, ...], scratch: frozenset[int]) -> Generated[Plan]:
    spec = source.spec
    plan, *conservative = plans = _widened(plans, spec.width)
    ordinary = None
    # where this is differentiated again, forward rules serve functions that are followed here
    alone = not (source.captured.followed or conservative or spec.options or scratch)
    if spec.again and alone:
        ordinary = source.stage("derive", generate_ordinary, plan)
    if ordinary is not None:
        plan, memory = ordinary.plan, 0
        functions, declarations = ordinary.functions, ordinary.declarations
    else:
        functions, declarations, memory = _functions(source.stage, plans)
    split = spec.mode == "split"
    deferred = spec.deferred and _assumes(plan)

    def versions(name: str) -> Versions:
        suffix = ".split" if split else ".gradient"
        second = conservative or deferred
        symbol = name + (CONSERVATIVE if second else "") + suffix
        return Versions(
            name + suffix,
            symbol if second or _overlap_matters(plan) else None,
            name + ".holds" if plan.assumptions else None,
            deferred,
        )

    again = Again(ordinary=ordinary is not None, expensive=bool(ordinary and ordinary.expensive))
    return Generated(plan, functions, declarations, versions, memory if split else 0, again)


def _functions(
    stage: Stages, plans: tuple[Plan, ...]
) -> tuple[list[Function], dict[str, str], int]:
    """The functions of all plans, their declarations, and the size in bytes of a tape in split
    mode. The conservative version rarely runs and is kept small: LLVM must not vectorise it, since
    with `minsize` its cost models may disagree about loops whose rest would be masked (two arrays
    read backwards), and an assertion ends the process.
    """
    functions: list[Function] = []
    declarations: dict[str, str] = {}
    memory = 0
    for plan in plans:
        added, needed, layout = stage("derive", generate, plan)
        for function in added if functions else ():
            if "alwaysinline" not in function.suffix:
                function.suffix += " cold minsize optsize noimplicitfloat"
        functions, declarations = functions + added, declarations | needed
        memory = max(memory, memory_size(layout, uses_tape(added)))
    return functions, declarations, memory


def _widened(plans: tuple[Plan, ...], width: int) -> tuple[Plan, ...]:
    """The plans for `width` lanes, or unchanged if one of them is possible for one lane only."""
    found = tuple(wide for plan in plans if (wide := widened(plan, width)) is not None)
    return found if width > 1 and len(found) == len(plans) else plans


def _without_assumptions(plan: Plan) -> Plan | None:
    """The plan that makes no assumptions, not even that arguments are disjoint; None: `plan`."""
    if not _assumes(plan):
        return None
    caller = replace(plan.request.caller, disjoint=False, separate=False, checked=False)
    request = replace(plan.request, caller=caller, name=STEM + CONSERVATIVE)
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
    sums = plan.sums
    arms = {i: window.arms for i, window in sums.windows.items()}
    summed = arms, sums.hidden_rows, sums.added_if_chosen
    return homes, plan.ownership.retained, rules, plan.pairs, summed


def _overlap_matters(plan: Plan) -> bool:
    """Whether there are two arrays, one of them written; otherwise, overlap changes no result."""
    pointers = [p for p in plan.request.parameters if p.argument.type.is_pointer]
    groups = {
        p.group: k
        for p in (*pointers, *plan.request.pointees)
        if (k := argument_of(p.group)) is not None
    }
    return len(groups) > 1 and any(is_written(plan, k) for k in set(groups.values()))
