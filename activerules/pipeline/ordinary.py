"""Gradients as ordinary code, which the engine can differentiate again.

Needs       a Plan
Gives       `generate_ordinary`
Invariants  O1  ordinary code has no tape, and calls nothing but mathematical functions and LLVM's
                intrinsics: it allocates nothing and calls no rules
            O2  no value in it depends on whether a cotangent is zero, unless the term with that
                cotangent is NaN: a constant 0 in place of a product with a zero would not have the
                derivative of the product
            O3  it writes no memory but shadows, so that it is right for arguments that overlap
"""

from __future__ import annotations

from dataclasses import replace

from activerules.ir.derivatives.table import is_pure_call
from activerules.ir.generate.assemble import generate
from activerules.ir.llvm.model import Function
from activerules.ir.plan.layout import Layout
from activerules.ir.plan.plan import Plan


def generate_ordinary(plan: Plan) -> tuple[Plan, list[Function], dict[str, str], Layout] | None:
    """The plan by which a gradient is ordinary code, and what `generate` makes of it; None if there
    is none.
    """
    asked = plan.request
    if plan.pairs or plan.rules or plan.assumptions or plan.tracked:
        return None
    if asked.split or asked.strong_zero or asked.width != 1 or not asked.separate:
        return None
    plan = replace(plan, passed_over={}, added_if_chosen=frozenset(), rows=frozenset())
    functions, declarations, layout = generate(plan)
    own = {f.name for f in functions}
    if any("noinline" in f.suffix for f in functions):
        return None
    called = [i.callee_name for f in functions for i in f.instructions() if i.opcode == "call"]
    for name in called:
        if name is None or not (name in own or name.startswith("llvm.") or is_pure_call(name)):
            return None
    return plan, functions, declarations, layout
