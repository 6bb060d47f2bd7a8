"""The plan of a derivative as text, for LLVM IR without Numba: what is active, kept, recomputed.

`explain` takes what `differentiate` takes and makes no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence

from activerules.ir.foreign.differentiate import of_module, read_request
from activerules.ir.llvm.model import Module
from activerules.ir.plan.layout import make_layout
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.rendering import render_plan


def explain(
    llvm_ir: str,
    function: str,
    activities: Sequence[type],
    return_activity: type | None = None,
) -> str:
    """Return the plan of a function's gradient as text.

    Arguments
        as `differentiate`.

    Returns
        Five paragraphs: the activity of every instruction, after normalisation; loops; what the
        tape keeps, with bytes and the reason; what is computed again; calls with rules.

    Raises
        what `differentiate` raises.
    """

    def explained(_text: str, module: Module, symbol: str, stem: str) -> str:
        plan = make_plan(read_request(module, symbol, activities, return_activity, stem))
        return render_plan(plan, make_layout(plan))

    return of_module(llvm_ir, function, explained)
