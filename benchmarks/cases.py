"""What is measured: programs of the test library at sizes that take about a millisecond."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import handwritten

# The programs are the ones that the tests check, not copies; they import each other as tests do.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from programs import (
    dynamics,
    factorisations,
    learning,
    loops,
    nests,
    reductions,
    science,
    stencils,
    whiles,
)


@dataclass(frozen=True)
class Case:
    """A program, its arguments, names of those kept Const, a gradient written by hand or None."""

    function: Callable
    arguments: tuple
    const: tuple[str, ...] = ()
    by_hand: Callable | None = None

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.function.__name__


def cases() -> list[Case]:
    """All cases, with reproducible arguments."""
    rng = np.random.default_rng(0)
    normal, uniform = rng.normal, rng.uniform
    spd = normal(size=(160, 160))
    spd = spd @ spd.T + 160 * np.eye(160)
    mlp = (
        normal(size=(1000, 20)),
        normal(size=(32, 20)) * 0.2,
        normal(size=32),
        normal(size=(10, 32)) * 0.2,
        normal(size=10),
        normal(size=(1000, 10)),
    )
    lstm = (
        normal(size=(64, 8)) * 0.3,
        normal(size=(64, 16)) * 0.3,
        normal(size=64) * 0.3,
        normal(size=(400, 8)),
    )
    gmm = (
        normal(size=10),
        normal(size=(10, 4)),
        normal(size=(10, 4)) * 0.2,
        normal(size=(1000, 4)),
    )
    grid = (uniform(0.5, 1.5, size=(32, 32)), uniform(0.5, 1.5, size=(32, 32)))
    return [
        Case(loops.horner, (0.999, normal(size=300_000))),
        Case(loops.long_dot, (normal(size=400_000), normal(size=400_000))),
        Case(loops.branch_in_loop, (normal(size=50_000),)),
        Case(whiles.newton_for_each_entry, (uniform(0.5, 3.0, size=8_000), np.zeros(8_000))),
        Case(nests.inner_length_from_data, (normal(size=8_000), rng.integers(0, 12, size=8_000))),
        Case(nests.while_in_for, (uniform(0.5, 3.0, size=30_000),)),
        Case(nests.triangular, (normal(size=(600, 600)),)),
        Case(nests.dynamic_time_warping, (normal(size=400), normal(size=400))),
        Case(reductions.log_sum_exp, (normal(size=100_000),), by_hand=handwritten.log_sum_exp),
        Case(
            learning.softmax_cross_entropy,
            (normal(size=(1000, 20)), normal(size=(20, 10)), rng.integers(0, 10, size=1000)),
        ),
        Case(
            learning.logistic_regression,
            (normal(size=(8000, 20)), normal(size=20), 1.0 * rng.integers(0, 2, size=8000)),
            const=("labels",),
            by_hand=handwritten.logistic_regression,
        ),
        Case(learning.mlp_over_a_batch, mlp),
        Case(learning.gmm_log_likelihood, gmm, by_hand=handwritten.gmm_log_likelihood),
        Case(learning.lstm, lstm),
        Case(dynamics.lorenz_rk4, (1.0, 1.0, 1.0, 10.0, 28.0, 8 / 3, 30_000)),
        Case(dynamics.lorenz_rk4_arrays, (np.ones(3), np.array([10.0, 28.0, 8 / 3]), 5_000)),
        Case(dynamics.kepler_rk4, (np.array([1.0, 0.1, 0.1, 1.0]), 1.0, 10_000)),
        Case(stencils.gauss_seidel, (normal(size=(64, 64)), 40)),
        Case(stencils.brusselator, (*grid, 0.0 * grid[0], 0.0 * grid[1], 3.4, 1.0, 0.5, 40)),
        Case(science.heat, (normal(size=(100, 100)), 0.1, 20)),
        Case(factorisations.cholesky_in_place, (spd,)),
        Case(factorisations.lu_in_place, (spd + 0.0,)),
    ]
