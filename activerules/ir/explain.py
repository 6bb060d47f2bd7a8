"""The plan of a derivative as text, for LLVM IR without Numba: what is active, kept, recomputed.

`explain` takes what `differentiate` takes and makes no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence

from activerules.ir.aliases import unaliased
from activerules.ir.by_value import copies_at_entry
from activerules.ir.derive.layout import make_layout
from activerules.ir.derive.planning import make_plan
from activerules.ir.derive.rendering import render_plan
from activerules.ir.differentiate import own_name, read_request
from activerules.ir.escaped_names import Escaped
from activerules.ir.normalise import canonical, exposed, normalise
from activerules.ir.reading import read_module
from activerules.ir.scalable import refuse_scalable


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
        what `differentiate` raises, except for what only shows when code is made.
    """
    given = canonical(llvm_ir)
    escaped = Escaped.of(given)
    source, function = escaped.plain(given), escaped.plain_name(function)
    function = own_name(source, function)
    with escaped.in_errors():
        text = refuse_scalable(copies_at_entry(exposed(unaliased(source)), function), function)
        module = read_module(normalise(text, function), function)
        symbol = function if function in module.functions else f'"{function}"'
        plan = make_plan(read_request(module, symbol, activities, return_activity, symbol))
    return escaped.restored(render_plan(plan, make_layout(plan)))
