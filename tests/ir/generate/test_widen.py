"""Rules in one reverse sweep for several shadows: each half runs as often as it must."""

import numpy as np
import pytest
from numba import float64, int64, njit

import activerules as ar
from activerules.ir.generate.widen import widened
from activerules.pipeline import reverse as pipeline
from activerules.rules import AugmentedReturn, augmented_primal, reverse

WEIGHTS = np.array([0.3, -1.7])


def with_rule(keeps_shadow):
    """A program that calls a function with a rule, which counts the runs of its halves."""

    @njit
    def scaled(x, counts):
        return x * x

    @njit
    def program(x, counts):
        return scaled(2.0 * x, counts).sum()

    X, Counts = float64[::1], int64[::1]

    @augmented_primal(scaled, keeps_shadow=keeps_shadow, sends=(), receives=())
    def scaled_augmented(config, ret: ar.Duplicated, x: ar.Duplicated[X], counts: ar.Const[Counts]):
        counts.val[0] += 1
        y = x.val * x.val
        return AugmentedReturn(y, np.zeros_like(y), (x.val.copy(), x.dval))

    @reverse(scaled)
    def scaled_reverse(
        config, dret: ar.Duplicated, tape, x: ar.Duplicated[X], counts: ar.Const[Counts]
    ):
        counts.val[1] += 1
        x.dval[:] += 2.0 * tape[0] * dret.dval

    return program


@pytest.mark.parametrize("keeps_shadow", [False, True])
def test_d1_plans_for_lanes_run_an_augmented_primal_once_and_have_none_that_may_keep_a_shadow(
    keeps_shadow, monkeypatch
):
    plans = []
    monkeypatch.setattr(pipeline, "widened", lambda *a: plans.append(widened(*a)) or plans[-1])
    x, counts = np.array([0.7, -0.4, 1.1]), np.zeros(2, np.int64)
    shadows = tuple(np.full(3, w) for w in WEIGHTS)
    program = with_rule(keeps_shadow)
    ar.autodiff(ar.Reverse, program, ar.Active, ar.BatchDuplicated(x, shadows), ar.Const(counts))
    np.testing.assert_allclose(shadows, 8.0 * x + WEIGHTS[:, None], rtol=1e-14)
    assert plans
    assert all((plan is None) == keeps_shadow for plan in plans)
    if not keeps_shadow:
        assert counts.tolist() == [1, 2]
