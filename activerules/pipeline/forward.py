"""From a Python function and an activity signature to the LLVM IR of its forward derivative.

As in `pipeline.reverse`, without a tape: nothing is kept, and nothing is undone. A call is marked
for its rules only if there is a forward rule; a function that has only a reverse rule is
differentiated through its body.
"""

from __future__ import annotations

from typing import Any

from activerules.ir.derivatives.rulecall import ActivityName
from activerules.ir.generate.assemble import generate_forward
from activerules.ir.plan.forward_plan import ForwardPlan, make_forward_plan
from activerules.numba_ext.calls.forward_checks import has_tangent
from activerules.numba_ext.target.capture import Captured
from activerules.numba_ext.target.derivative import Again, DerivativeSpec, Versions
from activerules.pipeline.derivation import Derivation, Generated, Steps, derive_by
from activerules.pipeline.requests import Source
from activerules.rules.views import FORWARD_VIEW, RuleView
from activerules.values.kinds import returned_type
from activerules.values.layout import ValueActivity


def derive_forward(
    function: Any, spec: DerivativeSpec, *, view: RuleView = FORWARD_VIEW
) -> Derivation[ForwardPlan]:
    """Derive the forward derivative of a function, with the results of every stage.

    `view`: the registry as forward mode sees it.

    Raises what capture, the analyses and the rule compiler raise: see `activerules.errors`.
    """
    return derive_by(Steps(_returned, _planned, _generated), function, spec, view)


def _returned(_: Any, captured: Captured, spec: DerivativeSpec) -> ActivityName:
    returned = returned_type(captured.signature.return_type)
    return "duplicated" if spec.return_activity != "const" and has_tangent(returned) else "const"


def _planned(source: Source, activities: tuple[ValueActivity, ...]) -> tuple[ForwardPlan]:
    return (make_forward_plan(source.request(activities)),)


def _generated(
    source: Source, plans: tuple[ForwardPlan, ...], _: frozenset[int]
) -> Generated[ForwardPlan]:
    functions, declarations = source.stage("derive", generate_forward, plans[0])

    def versions(name: str) -> Versions:
        return Versions(name + ".forward", conservative=name + ".forward")

    again = Again(source.rules.sources, source.rules.called)
    return Generated(plans[0], functions, declarations, versions, again=again)
