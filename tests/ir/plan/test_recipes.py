"""Which values the reverse sweep computes again."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.annotations.activity import Const, Duplicated
from activerules.ir.analysis.nodes import Primal
from activerules.testing import check_gradient
from tests.ir.plan.planned import plan_of

ENTRY_AT = """
define double @f(ptr %a, ptr %at) {{
  %i = load {i}
  %p = getelementptr double, ptr %a, i64 %i
  %v = load {v}
  %r = fmul double %v, %v
  ret double %r
}}
"""


@pytest.mark.parametrize(
    ("i", "v", "kept"),
    [
        ("i64, ptr %at", "double, ptr %p", set()),
        ("volatile i64, ptr %at", "double, ptr %p", {"i"}),
        ("i64, ptr %at", "volatile double, ptr %p", {"v"}),
        ("atomic i64, ptr %at monotonic, align 8", "double, ptr %p", {"i"}),
    ],
)
def test_what_others_may_write_is_not_read_again(i, v, kept):
    plan = plan_of(ENTRY_AT.format(i=i, v=v), [Duplicated, Const])
    assert {n.value.name for n in plan.cache.kept if isinstance(n, Primal)} == kept


@njit
def relax(a, b, steps):
    for _ in range(steps):
        a = a + 0.1 * (b - a * a)
    return np.sum(a)


@njit
def smooth(a, rate, steps):
    for _ in range(steps):
        new = np.zeros(len(a))
        for i in range(1, len(a) - 1):
            new[i] = a[i] + rate * (a[i - 1] - 2.0 * a[i] + a[i + 1])
        a = new
    return np.sum(a * a)


def test_an_array_that_is_handed_on_is_read_again_if_that_is_one_read():
    """To keep it alive takes what its values would take on the tape; the slope of `rate` is one
    number per entry, and would be computed from three."""
    n, steps = 1_000, 10
    a, b = np.random.default_rng(5).uniform(0.1, 0.9, size=(2, n))
    both = ar.Duplicated(a, np.zeros(n)), ar.Duplicated(b, np.zeros(n))
    assert ar.tape_bytes(relax, *both, steps) < 8 * n
    kept = ar.tape_bytes(smooth, both[0], ar.Active(0.1), steps)
    assert 8 * steps * (n - 2) <= kept < 8 * (steps + 1) * n
    check_gradient(relax, (a[:5], b[:5], 3))
    check_gradient(smooth, (a[:6], 0.1, 3))
