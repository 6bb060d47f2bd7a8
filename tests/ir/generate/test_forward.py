"""The forward derivative against the primal, and its tangents."""

import functools

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.forward_harness import check_forward
from tests.ir.generate.test_reverse import WINDOW
from tests.ir.harness import Const, Duplicated, compile_text

ACTIVITIES = [Duplicated, Duplicated, Duplicated, Const]


def test_f1_forward_derivative_computes_and_writes_what_the_primal_does():
    compiled = compile_text(differentiate(WINDOW, "f", ACTIVITIES, "forward"), None)
    rng = np.random.default_rng(3)
    p, q, dp, dq = rng.normal(size=(4, 6))
    left = []
    for name in ("f", "f.forward"):
        arrays = [p.copy(), q.copy()]
        at, bt = (array.ctypes.data for array in arrays)
        if name == "f":
            compiled.function(name)(at, bt, 0.8, 5)
        else:
            tangents = dp.copy(), dq.copy()
            dat, dbt = (array.ctypes.data for array in tangents)
            compiled.function(name)(at, dat, bt, dbt, 0.8, 1.0, 5)
        left.append([array.tobytes() for array in arrays])
    assert left[0] == left[1]


def test_f2_tangents_of_values_and_of_memory():
    rng = np.random.default_rng(4)
    for width in (1, 3):
        args = [rng.normal(size=6), rng.normal(size=6), 0.8, 5]
        check_forward(WINDOW, "f", ACTIVITIES, args, width=width)


@njit
def replaced(x, limit):
    """Arrays that are exchanged and made anew, where something may raise."""
    last, s = x, 0.0
    for i in range(len(x)):
        made = last * x[i]
        last = made + x
        if last[0] > limit:
            raise ValueError("above")
        s += made.sum()
    return s


def test_f3_references_are_taken_and_dropped_on_shadows_as_well(unfreed):
    x, v = np.array([0.5, 1.5, -0.3]), np.array([1.0, 0.2, 0.4])

    def raises(f, *args):
        def run():
            with pytest.raises(ValueError, match="above"):
                f(*args)

        return unfreed(run)

    along = functools.partial(ar.jvp, replaced)
    assert unfreed(lambda: along((x, 9.0), (v, None))) == 0
    assert raises(along, (x, 0.6), (v, None)) <= 2 * raises(replaced, x, 0.6)
    step = 1e-6
    slope = (replaced(x + step * v, 9.0) - replaced(x - step * v, 9.0)) / (2 * step)
    assert along((x, 9.0), (v, None))[1] == pytest.approx(slope, rel=1e-8)
