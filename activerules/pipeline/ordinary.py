"""Gradients as ordinary code, which the engine can differentiate again.

Needs       a Plan
Gives       `generate_ordinary`
Invariants  O1  ordinary code keeps what it needs in arrays (T6 of `ir.plan.layout`), and calls
                nothing but mathematical functions, LLVM's intrinsics, and what allocates and
                releases these arrays: it calls no rules
            O2  no value in it depends on whether a cotangent is zero, unless the term with that
                cotangent is NaN: a constant 0 in place of a product with a zero would not have the
                derivative of the product
            O3  it writes no memory of the caller but shadows, so that it is right for arguments
                that overlap
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from activerules.ir.derivatives.table import cost, is_pure_call
from activerules.ir.generate.assemble import generate
from activerules.ir.llvm.model import Function, Instruction
from activerules.ir.normal.effects import effect_of
from activerules.ir.plan.layout import Layout, make_array_layout, without_rows
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan

_FEW = 8
"""So many calls of mathematical functions take less time than the arrays of several tangents."""


@dataclass(frozen=True, eq=False)
class Ordinary:
    """A gradient as ordinary code.

    plan, functions, declarations, layout   that by which it is ordinary, and what `generate` makes
    expensive   whether it keeps values in arrays, or calls mathematical functions often: work that
                several tangents can share
    """

    plan: Plan
    functions: list[Function]
    declarations: dict[str, str]
    layout: Layout
    expensive: bool


def generate_ordinary(plan: Plan) -> Ordinary | None:
    """The gradient as ordinary code; None if there is none."""
    asked, caller = plan.request, plan.request.caller
    if plan.pairs or plan.rules or plan.assumptions or plan.slopes.tracked:
        return None
    if caller.split or asked.options.strong_zero or asked.width != 1 or not caller.separate:
        return None
    if plan.ranges:
        request = replace(asked, caller=replace(caller, copies_entries=False))
        plan = make_plan(request, rewritten=plan)
    plan = without_rows(plan)
    layout = make_array_layout(plan)
    if layout is None:
        return None
    functions, declarations, layout = generate(plan, layout)
    own = {f.name for f in functions}
    if any("noinline" in f.suffix for f in functions):
        return None
    calls = [i for f in functions for i in f.instructions() if i.opcode == "call"]
    if not all(i.callee_name in own or _is_ordinary(i) for i in calls):
        return None
    arrays = layout.arrays is not None and bool(layout.arrays.entries)
    return Ordinary(plan, functions, declarations, layout, arrays or _is_expensive(plan))


def _is_ordinary(call: Instruction) -> bool:
    name = call.callee_name
    if name is None:
        return False
    effect = effect_of(name)
    is_memory = effect is not None and any(
        (effect.counts, effect.allocates, effect.frees, effect.pure)
    )
    return is_memory or name.startswith("llvm.") or is_pure_call(name)


def _is_expensive(plan: Plan) -> bool:
    """Whether mathematical functions are called in a loop, or more than a few."""
    calls = [i for i in plan.request.function.instructions() if i.opcode == "call"]
    costly = [i for i in calls if is_pure_call(i.callee_name or "") and cost(i) != 0]
    return len(costly) > _FEW or any(plan.flow.loop_of(i.owner) is not None for i in costly)
