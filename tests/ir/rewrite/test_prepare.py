"""The rewriting stage, on cases that it rewrites."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from activerules.ir.foreign.differentiate import read_request
from activerules.ir.generate.assemble import generate
from activerules.ir.llvm.printer import print_function
from activerules.ir.normal.reading import read_module
from activerules.ir.plan.analyses import prepared, summaries_of
from activerules.ir.plan.facts import analyse
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import Caller
from activerules.ir.text.normalise import normalise
from tests.ir.test_differentiate_cases import read_case

CASES = Path(__file__).parents[1] / "cases"


def request_of(name: str):
    """The request for the gradient of a case."""
    case = read_case(CASES / f"{name}.ll")
    module = read_module(normalise(case.text, case.function), case.function)
    return read_request(module, case.function, case.activities, None, case.function)


@pytest.mark.parametrize("name", ["pointer_copied_as_integer", "swap_as_integers"])
def test_g1_after_prepare_nothing_changes_the_function(name):
    request = request_of(name)
    as_parsed = print_function(request.function)
    facts = analyse(prepared(request, summaries_of(request)))
    rewritten = print_function(request.function)
    assert rewritten != as_parsed
    plan = make_plan(request, rewritten=facts)
    overlapping = make_plan(replace(plan.request, caller=Caller(disjoint=False)), rewritten=plan)
    for one in (plan, overlapping):
        generate(one)
    assert print_function(request.function) == rewritten
