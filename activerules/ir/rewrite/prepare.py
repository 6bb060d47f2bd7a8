"""The rewriting stage: a function is brought to the form that is analysed, planned and derived.

Needs       a parsed function, and its analyses, made when they are asked for (`AnalysesOnDemand`)
Gives       `prepare`: the function changed in place, and those of its analyses that the rewrites
            asked for and that still hold
Invariants  G1  when it returns, nothing changes the function any more

Every rewrite is right whether arguments overlap or not: the plans for both share the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Literal, Protocol, TypeVar

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.shapes import ShapesIn
from activerules.ir.analysis.returns import Returns, analyse_returns
from activerules.ir.analysis.types.value_types import ValueTypes, analyse_value_types
from activerules.ir.llvm.cfg import ControlFlow, control_flow
from activerules.ir.llvm.model import Function
from activerules.ir.normal import normal_form
from activerules.ir.rewrite.decide import decide
from activerules.ir.rewrite.forward_loads import forward_loads
from activerules.ir.rewrite.number_values import number_values
from activerules.ir.rewrite.peel import MOST_COPIED, peel
from activerules.ir.rewrite.retype import retype_float_copies, retype_pointer_copies


class AnalysesOnDemand(Protocol):
    """The analyses of a function that rewrites use and invalidate."""

    @cached_property
    def integers(self) -> Integers:
        """The values and bounds of its integers."""
        ...

    @cached_property
    def memory(self) -> MemoryFacts:
        """The memory its pointers may point to, and the instructions that write it."""
        ...

    @cached_property
    def types(self) -> ValueTypes:
        """Which values and which memory may hold floats."""
        ...

    @property
    def shapes(self) -> Callable[[], ShapesIn]:
        """The shapes of memory."""
        ...

    def renew(self, name: Literal["integers", "memory", "types"], /) -> None:
        """Discard these results; they are recomputed when they are next used."""
        ...

    def drop_changed_pointees(self) -> None:
        """Withdraw the declarations of memory behind pointers that the function may change."""
        ...


A = TypeVar("A", bound=AnalysesOnDemand)


def prepare(
    function: Function, analyses_of: Callable[[ControlFlow, Returns], A], *, status: bool
) -> A:
    """Run each rewrite once. Only `peel` changes the control flow; it is analysed anew then.

    The analyses that a rewrite invalidates are discarded after it: `integers` if integers are
    computed differently or elsewhere, `memory` if an integer became a pointer, or the offset of one
    in its object may be known now, `types` if an integer became a float. Moving a load changes no
    pointer's targets.

    status   the function returns an integer that is 0 for success

    Raises `UnsupportedIR` for a function that is not in normal form.
    """
    normal_form.tidy(function)
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=status)
    normal_form.check(function, flow, returns.live)
    analyses = analyses_of(flow, returns)
    if decide(function, analyses.integers):
        analyses.renew("integers")
    left = MOST_COPIED
    while copied := peel(function, flow, returns, analyses.integers, left):
        left -= copied
        flow = control_flow(function)
        number_values(function, flow)
        returns = analyse_returns(function, flow, status=status)
        analyses = analyses_of(flow, returns)
        while decide(function, analyses.integers):
            analyses.renew("integers")
    analyses.drop_changed_pointees()
    memory = analyses.memory
    anywhere = replace(memory, caller=replace(memory.caller, disjoint=False))
    forwarded = forward_loads(function, flow, anywhere, Dependence(analyses.integers), returns.live)
    if forwarded.anything:
        analyses.renew("integers")
    if forwarded.pointers:
        analyses.renew("memory")
    if analyses.memory.integer_sources and retype_pointer_copies(
        function, analyse_value_types(function, analyses.memory, {}, analyses.shapes)
    ):
        analyses.renew("memory")
    if retype_float_copies(function, analyses.types):
        analyses.renew("types")
    return analyses
