"""Plans of random programs, and analyses of given ones, for the tests of what they promise."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.errors import ActiverulesError
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.foreign.differentiate import read, read_request
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.plan.analyses import Analyses, summaries_of
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import Pointee
from activerules.ir.text.normalise import canonical
from tests.ir.random_programs import Generator, TooLong, evaluate, lower, make_inputs

ACTIVITIES = [Duplicated, Duplicated, Const, Const, Active, Active]


def plan_of(text: str, activities: list[type], function: str = "f") -> Plan:
    module, symbol = read(canonical(text), function)
    return make_plan(read_request(module, symbol, activities, None, symbol))


def analyses_of(
    text: str, declared: Mapping[str, Declared], pointees: tuple[Pointee, ...] = ()
) -> Analyses:
    """Analyses of `f` as it is written, with its memory as declared; pointers are Duplicated."""
    module = parse_module(text)
    arguments = module.functions["f"].arguments
    activities = [Duplicated if a.type.is_pointer else Const for a in arguments]
    request = read_request(module, "f", activities, None, "f")
    parameters = tuple(
        replace(p, passed=replace(p.passed, declared=declared.get(p.argument.name or "")))
        for p in request.parameters
    )
    request = replace(request, parameters=parameters, pointees=pointees)
    flow = control_flow(request.function)
    returns = analyse_returns(request.function, flow, status=False)
    return Analyses(request, summaries_of(request), flow, returns)


@cache
def random_plans(count: int = 25) -> tuple[tuple[Plan, int], ...]:
    """Plans of programs that end, and the seed of inputs for which they do."""
    return tuple(_plans(count))


def _plans(count: int) -> Iterator[tuple[Plan, int]]:
    rng = random.Random(11)
    found = 0
    while found < count:
        program = Generator(rng).program(rng.choice([8, 12, 16]))
        seed = rng.randrange(1 << 30)
        try:
            evaluate(program, make_inputs(seed))
            plan = plan_of(lower(program, "noalias "), ACTIVITIES)
        except (TooLong, OverflowError, ActiverulesError):
            continue
        found += 1
        yield plan, seed
