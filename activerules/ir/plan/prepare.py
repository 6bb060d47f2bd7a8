"""The rewriting stage: a function is brought to the form that is analysed, planned and derived.

Needs       a Request
Gives       `prepare`: the function of the request changed in place, and those of the Analyses that
            the rewrites asked for and that still hold
Invariants  G1  when it returns, nothing changes the function any more

Every rewrite is right whether arguments overlap or not: the plans for both share the function.
"""

from __future__ import annotations

from dataclasses import replace

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.analysis.summaries import ModuleSummaries
from activerules.ir.analysis.types.value_types import analyse_value_types
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.normal import normal_form
from activerules.ir.plan.analyses import Analyses
from activerules.ir.plan.request import Request
from activerules.ir.rewrite.decide import decide
from activerules.ir.rewrite.forward_loads import forward_loads
from activerules.ir.rewrite.retype import retype_float_copies, retype_pointer_copies


def prepare(request: Request, summaries: ModuleSummaries) -> Analyses:
    """Rewrite, each rewrite once; none of them changes the control flow.

    Behind each one, what it makes out of date is given up: what integers are where they are
    computed otherwise or elsewhere, what points where with a pointer that was an integer, where
    floats are with a float that was. A load that is moved, or repeats another, leads nowhere else.

    Raises `UnsupportedIR` for a function that is not in normal form.
    """
    function = request.function
    normal_form.tidy(function)
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=request.returns == "status")
    normal_form.check(function, flow, returns.live)
    known = Analyses(request, summaries, flow, returns)
    if decide(function, known.integers):
        known.renew("integers")
    known.drop_changed_pointees()
    if known.memory.integer_sources and retype_pointer_copies(
        function, analyse_value_types(function, known.memory, {}, known.shapes)
    ):
        known.renew("memory")
    anywhere = replace(known.memory, disjoint=False)
    if forward_loads(function, flow, anywhere, Dependence(known.integers), returns.live):
        known.renew("integers")
    if retype_float_copies(function, known.types):
        known.renew("types")
    return known
