"""Cotangents that are added up in registers: the same sums, and no other entry is touched."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.ir.harness import Const, Duplicated, check_gradient
from tests.ir.interpreter import Interpreter
from tests.ir.nests import PeriodicNest, WindowNest
from tests.ir.test_nests import ROOM, call, check, derivative


@pytest.mark.parametrize("kind", [WindowNest, PeriodicNest])
def test_u1_shadows_are_those_of_exact_derivatives(kind):
    assert sum(check(seed, True, kind) for seed in range(60, 70)) > 50


def test_u2_no_other_entry_is_added_to():
    """-0.0 is what an entry holds to which nothing was added: any sum makes it 0.0."""
    entries = 0
    kinds = [WindowNest] * 6 + [PeriodicNest] * 6
    for seed, kind in enumerate(kinds, 70):
        compiled, plan = derivative(kind(random.Random(seed)).text, checked=False)
        for sizes in [(4, 5), (1, 4), (6, 6)]:
            run, accessed = Interpreter(plan.request.function), set()
            run.at_access = lambda _, address, accessed=accessed: accessed.add(address)
            names = [a.name for a in run.function.arguments[:-2]]
            assert run.run([*((name, 0) for name in names), *sizes], limit=200_000)
            bar = np.full(2 * ROOM * len(names), -0.0)
            call(compiled, "f.gradient", None, np.ones_like(bar), bar, sizes)
            addresses = [(name, 8 * (k - ROOM)) for name in names for k in range(2 * ROOM)]
            touched = {addresses[k] for k in np.flatnonzero(~np.signbit(bar))}
            assert touched <= accessed
            entries += len(touched) if plan.sums.windows else 0
    assert entries > 200


# a[i] + a[i + 1] in single precision, from the end, with each row as its own array
BACKWARDS = """
define void @f(ptr noalias %a, ptr noalias %b, i64 %n, i64 %stride) {
entry:
  br label %loop
loop:
  %k = phi i64 [ %n, %entry ], [ %i, %loop ]
  %i = add nsw i64 %k, -1
  %at = mul nsw i64 %i, %stride
  %behind = mul nsw i64 %k, %stride
  %p = getelementptr float, ptr %a, i64 %at
  %q = getelementptr float, ptr %a, i64 %behind
  %x = load float, ptr %p
  %y = load float, ptr %q
  %again = load float, ptr %q
  %xy = fmul float %x, %y
  %sum = fadd float %xy, %again
  %to = getelementptr float, ptr %b, i64 %i
  store float %sum, ptr %to
  %more = icmp sgt i64 %i, 0
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


@pytest.mark.parametrize("stride", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_u1_u2_a_loop_that_counts_down_with_a_stride_that_is_not_known(stride, n):
    a, b = np.random.default_rng(3).normal(size=(2, 20)).astype(np.float32)
    check_gradient(
        BACKWARDS, "f", [Duplicated, Duplicated, Const, Const], [a, b, n, stride], tolerance=2e-3
    )
