"""What a plan promises to the generators behind it."""

import ast
from pathlib import Path

from activerules.ir import generate
from tests.ir.plan.planned import random_plans

GENERATORS = sorted(Path(generate.__path__[0]).glob("*.py"))


def test_l1_generators_run_no_analysis_and_ask_for_no_rule():
    assert len(GENERATORS) > 10
    for path in GENERATORS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func
                name = getattr(called, "attr", getattr(called, "id", ""))
                assert not name.startswith("analyse"), f"{path.name}:{node.lineno}"
                assert name not in {"choose", "make_plan", "plan_cache"}, path.name


def test_l2_needed_values_are_kept_or_computed():
    for plan, _ in random_plans():
        cache = plan.cache
        needed = set().union(*plan.needs.values())
        assert needed <= cache.kept | cache.computed.keys()
        for operands in cache.computed.values():
            assert set(operands) <= cache.kept | cache.computed.keys()
