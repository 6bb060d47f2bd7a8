"""What is said of plans of random programs."""

from activerules.ir.analysis.nodes import Primal
from activerules.ir.plan.reasons import describe, origin, why_kept
from tests.ir.plan.planned import random_plans


def test_r1_sentences_are_read_off_the_plan():
    """Each kept node has one; a node that is not kept has none of an overwriting instruction; and
    the plan is as it was.
    """
    culprits = 0
    for plan, _ in random_plans():
        kept, computed = set(plan.cache.kept), dict(plan.cache.computed)
        overwriters = dict(plan.overwriters)
        for node in plan.cache.kept:
            reason = why_kept(node, plan)
            assert reason.text
            assert describe(node, plan)
            if isinstance(node, Primal) and reason.culprit is not None:
                assert reason.culprit is overwriters[node.value]
                culprits += 1
            assert origin(node) is None or origin(node) in set(plan.request.function.instructions())
        assert (plan.cache.kept, plan.cache.computed) == (kept, computed)
        assert plan.overwriters == overwriters
    assert culprits
