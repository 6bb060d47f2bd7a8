"""The cache plan against brute force on small random graphs: K1 to K3."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest

from activerules.ir.analysis.cache import LOOP_WEIGHT, RELOAD_COST, plan_cache
from activerules.ir.analysis.nodes import AT_HAND, MUST_KEEP, Recipe

LARGE = 1e15


@dataclass(frozen=True)
class Problem:
    """Nodes 0..n-1; operands have smaller numbers."""

    recipes: tuple[Recipe, ...]
    sizes: tuple[int, ...]
    depths: tuple[int, ...]
    kept_at: tuple[float, ...]
    needed: frozenset[int]

    def cost(self, kept: frozenset[int]) -> float:
        """Bytes kept and work done again; infinite if a needed node cannot be had."""
        total = sum(max(self.sizes[n], 0.5) * LOOP_WEIGHT ** self.kept_at[n] for n in kept)
        further_out = [n for n in kept if self.kept_at[n] < self.depths[n]]
        total += sum(RELOAD_COST * LOOP_WEIGHT ** self.depths[n] for n in further_out)
        work, seen = list(self.needed), set(self.needed)
        while work:
            node = work.pop()
            recipe = self.recipes[node]
            if node in kept:
                continue
            if recipe.cost is None:
                return LARGE
            total += recipe.cost * LOOP_WEIGHT ** self.depths[node]
            for operand in recipe.operands:
                if operand not in seen:
                    seen.add(operand)
                    work.append(operand)
        return total

    def cheapest(self) -> float:
        nodes = range(len(self.recipes))
        choices = (
            frozenset(c) for k in range(len(nodes) + 1) for c in itertools.combinations(nodes, k)
        )
        return min(self.cost(choice) for choice in choices)


def _problem(rng: random.Random) -> Problem:
    count = rng.randrange(2, 9)
    recipes = []
    for node in range(count):
        operands = tuple(rng.sample(range(node), min(node, rng.randrange(3))))
        kind = rng.random()
        if kind < 0.25 or not operands:
            recipes.append(rng.choice([AT_HAND, MUST_KEEP]))
        else:
            recipes.append(Recipe(operands, rng.choice([0.0, 0.25, 2.0, 8.0])))
    sizes = tuple(rng.choice([1, 4, 8, 24]) for _ in range(count))
    depths = tuple(rng.randrange(3) for _ in range(count))
    kept_at = tuple(max(0.0, depth - rng.choice([0, 0, 0.5, 1])) for depth in depths)
    needed = frozenset(rng.sample(range(count), rng.randrange(1, count)))
    return Problem(tuple(recipes), sizes, depths, kept_at, needed)


@pytest.mark.parametrize("number", range(300))
def test_k1_k2_k3_choice_is_sound_and_cheapest(number: int) -> None:
    problem = _problem(random.Random(number))
    plan = plan_cache(
        problem.needed,  # type: ignore[arg-type]
        lambda n: problem.recipes[n],  # type: ignore[call-overload]
        lambda n: problem.sizes[n],  # type: ignore[call-overload]
        lambda n: problem.depths[n],  # type: ignore[call-overload]
        lambda n: problem.kept_at[n],  # type: ignore[call-overload]
    )
    assert not plan.kept & plan.computed.keys()
    assert plan.needed <= plan.kept | plan.computed.keys()
    for node in plan.computed:
        recipe = problem.recipes[node]  # type: ignore[call-overload]
        assert recipe.cost is not None
        assert set(recipe.operands) <= plan.kept | plan.computed.keys()
    for node in plan.kept:
        assert problem.recipes[node] is not AT_HAND  # type: ignore[call-overload]
    assert problem.cost(plan.kept) == pytest.approx(problem.cheapest())  # type: ignore[arg-type]
