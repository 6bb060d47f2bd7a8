"""The plan of a derivative as text, for LLVM IR without Numba: what is active, kept, recomputed.

`explain` takes what `differentiate` takes and makes no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence

from activerules.ir.foreign.differentiate import inlined_if_needed, own_name, read, read_request
from activerules.ir.foreign.escaped_names import Escaped
from activerules.ir.plan.layout import make_layout
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.rendering import render_plan
from activerules.ir.text.normalise import canonical


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
    given = canonical(llvm_ir)
    escaped = Escaped.of(given)
    source, function = escaped.plain(given), escaped.plain_name(function)
    named = own_name(source, function)

    def attempt(own: str) -> str:
        module, symbol = read(own, named)
        plan = make_plan(read_request(module, symbol, activities, return_activity, symbol))
        return escaped.restored(render_plan(plan, make_layout(plan)))

    with escaped.in_errors():
        return inlined_if_needed(source, attempt)
