"""The check of a plan's assumptions: a function that tests whether the arguments satisfy them.

Needs       a Plan with assumptions
Gives       `i1 <name>.holds(each primal parameter, followed by its shadow if it is Duplicated)`
Invariants  S1  the caller of a derivative with assumptions calls this function first, and where
                they do not hold calls the version without assumptions (`Caller.checked`)

The inequalities are evaluated with 128 bits, as parameters may be any number of 64 bits.
"""

from __future__ import annotations

from functools import reduce

from activerules.ir.analysis.loops.dependence import Assumption
from activerules.ir.generate.sweep import make_parameters, names_of
from activerules.ir.llvm.builder import Builder, suffixed
from activerules.ir.llvm.model import Argument, Block, Function, Value
from activerules.ir.llvm.types import I1, int_type
from activerules.ir.plan.plan import Plan

_WIDE = int_type(128)


def build_check(plan: Plan, declarations: dict[str, str]) -> Function:
    """A function that tests, at run time, whether all assumptions of a plan hold."""
    namer = names_of(plan)
    entry = Block(namer("entry"))
    b = Builder(entry, namer, declarations)
    parameters = make_parameters(plan, [])
    holds: list[Value] = [
        _hold(b, assumption, parameters.primal)
        for assumption in sorted(plan.assumptions, key=lambda assumption: assumption.text)
    ]
    b.ret(reduce(lambda x, y: b.binary("and", x, y), holds))
    return Function(suffixed(plan.request.name, ".holds"), I1, parameters.arguments[:-2], [entry])


def _hold(b: Builder, assumption: Assumption, values: dict[Value, Value]) -> Value:
    total: Value = b.const(_WIDE, 0)
    for monomial, c in sorted(assumption.poly.terms.items(), key=lambda term: str(term)):
        term: Value = b.const(_WIDE, c)
        for atom in monomial:
            assert isinstance(atom, Argument)
            term = b.binary("mul", term, b.cast("sext", values[atom], _WIDE))
        total = b.binary("add", total, term)
    return b.icmp("sge", total, b.const(_WIDE, 0))
