"""Atomic updates of integers, before and after they become calls."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit
from numba.extending import intrinsic

import activerules as ar
from activerules.ir.text.atomics import as_calls
from activerules.testing import check_gradient

COUNTED = """
define double @f(ptr %n, double %x) {
  %old = atomicrmw add ptr %n, i64 1 monotonic, align 8, !dbg !3
  %more = atomicrmw add ptr %n, i64 1 monotonic, align 8
  %sum = atomicrmw fadd ptr %n, double %x monotonic, align 8
  ret double %sum
}
"""


def updating(operation):
    """The intrinsic `update(array, value)`, which changes `array[0]` atomically."""

    @intrinsic
    def update(typing_context, array, value):
        def codegen(context, builder, signature, args):
            data = context.make_array(array)(context, builder, args[0]).data
            value = context.cast(builder, args[1], signature.args[1], array.dtype)
            return builder.atomic_rmw(operation, data, value, "monotonic")

        return array.dtype(array, value), codegen

    return update


count, add = updating("add"), updating("fadd")


@njit(nogil=True)
def reported(x, progress):
    total = 0.0
    for i in range(len(x)):
        total += x[i] ** 2 * (i + 1)
        count(progress, 1)
    return total


@njit
def scattered(x):
    total = np.zeros(1)
    add(total, x[0] * x[1])
    return total[0]


def test_updates_of_integers_become_calls_of_one_function():
    changed = as_calls(COUNTED)
    assert changed.count("call i64 @activerules.atomic.add.i64.monotonic.8(ptr %n, i64 1)") == 2
    assert changed.count("define linkonce_odr") == 1
    assert "i64 1), !dbg !3\n" in changed
    assert "%sum = atomicrmw fadd" in changed
    assert as_calls(changed) == changed


def test_progress_is_counted_once_per_derivative():
    x, progress = np.array([0.5, 2.0, -1.0]), np.zeros(1, np.uint64)
    check_gradient(reported, (x, progress))
    progress[0] = 0
    assert np.array_equal(ar.grad(reported)(x, progress), 2 * x * [1, 2, 3])
    ar.jvp(reported, (x, progress), (x, None))
    assert progress[0] == 6
    assert np.allclose(ar.hessian(reported)(x, progress), np.diag([2.0, 4.0, 6.0]))


def test_a1_threads_lose_no_counts():
    gradient = ar.grad(reported)
    x, progress = np.ones(20_000), np.zeros(1, np.uint64)
    gradient(x, progress)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: gradient(x, progress), range(20)))
    assert progress[0] == 21 * 20_000


def test_updates_of_floats_are_refused():
    with pytest.raises(ar.UnsupportedIR, match=r"atomicrmw`(?s:.*)update without atomics"):
        ar.grad(scattered)(np.ones(2))
