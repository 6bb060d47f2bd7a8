"""Functions that are called: one plan for each variant of a call."""

from pathlib import Path

from tests.ir.plan.planned import plan_of
from tests.ir.test_differentiate_cases import read_case

CASES = Path(__file__).parents[1] / "cases"
CALLED = ("callee_in_loop", "tree_recursion", "linked_list_calls", "pairs_by_value")


def plans():
    for name in CALLED:
        case = read_case(CASES / f"{name}.ll")
        plan = plan_of(case.text, case.activities)
        assert plan.pairs
        yield plan


def test_f1_one_name_is_one_variant_of_one_function():
    for plan in plans():
        names = [one.request.name for one in (plan, *plan.pairs)]
        assert len(set(names)) == len(names)
        used = {use.stem for one in (plan, *plan.pairs) for use in one.derived.values()}
        assert used <= set(names)


def test_f2_every_plan_has_a_copy_of_the_function():
    for plan in plans():
        functions = [one.request.function for one in (plan, *plan.pairs)]
        assert len({id(function) for function in functions}) == len(functions)
        blocks = [id(block) for function in functions for block in function.blocks]
        assert len(set(blocks)) == len(blocks)
