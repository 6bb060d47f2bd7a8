"""A tape that does not fit into memory: MemoryError, shadows unchanged, the next call works."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def iterate(x, n):
    s = x[0]
    for _ in range(n):
        s = np.sin(s) * 1.0001
    x[0] = s
    return s


@pytest.mark.parametrize("n", [10**12, 2**62, 2**63 - 1])
def test_rows_of_a_known_loop(n, unfreed):
    x, dx = np.array([0.5]), np.array([3.0])

    def exhaust():
        with pytest.raises(MemoryError, match="tape"):
            ar.autodiff(ar.Reverse, iterate, ar.Duplicated(x, dx), n)

    exhaust()
    assert unfreed(exhaust) == 0
    assert x[0] == 0.5
    assert dx[0] == 3.0
    ar.autodiff(ar.Reverse, iterate, ar.Duplicated(x, dx), 0)
    assert dx[0] == 4.0


EVERY_ROW = """
import ctypes
import numpy as np
from numba import njit
import activerules as ar
from activerules.ir.tape import runtime

@njit
def steps(x, n):
    y, last = x * 0.1, x
    for i in range(n):
        last = y * i
        y = np.dot(x, last) * 0.01 + np.sin(y)
    return y.sum() + last[0]

@njit
def fill(x, n):
    items, found = [x * 2.0], {0: x * 3.0}
    for i in range(n):
        items.append(np.sin(items[i]) * x)
        found[i + 1] = found[i] * items[i]
        x[1:] = x[:-1]
    return items[n][1] + found[n][1]

left = ctypes.c_int64(1000)
runtime.TEXT = runtime.TEXT.replace("  %more = add i64 %bytes, 15", f'''
  %left.at = inttoptr i64 {ctypes.addressof(left)} to ptr
  %left = load i64, ptr %left.at
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %left.at
  %gone = icmp slt i64 %left, 1
  br i1 %gone, label %none, label %there
none:
  ret ptr null
there:
  %more = add i64 %bytes, 15''', 1)
for gradient in ar.grad(steps), ar.grad(fill):
    x, left.value, failed = np.array([0.5, 1.5]), 1000, 0
    expected = gradient(x.copy(), 9)
    rows = 1000 - left.value
    for left.value in range(rows):
        try:
            gradient(x.copy(), 9)
        except MemoryError:
            failed += 1
    left.value = rows
    print(rows > 25, failed == rows, np.array_equal(gradient(x.copy(), 9), expected))
"""


def test_memory_runs_out_wherever_the_tape_grows():
    """In rows, shadows, results and tapes of rules, containers, copies. Each row of the tape in its
    turn is the one that there is no memory for; nothing is freed twice, and the next call works.
    """
    done = subprocess.run(
        [sys.executable, "-c", EVERY_ROW],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MALLOC_PERTURB_": "165"},
    )
    assert done.stdout.split() == ["True"] * 6


def test_rows_of_a_loop_without_end():
    """The process may have 300 MB more than it has; the loop would run for ever."""
    program = textwrap.dedent("""
        import resource
        from pathlib import Path
        import numpy as np
        from numba import njit
        import activerules as ar

        @njit
        def wander(x):
            while x > -2.0:
                x = np.sin(x) * 1.5
            return x

        gradient = ar.grad(wander)
        assert gradient(-3.0) == 1.0
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 300_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for _ in range(2):
            try:
                gradient(0.3)
            except MemoryError as error:
                print(error)
        print(gradient(-4.0))
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.splitlines()[:2] == ["the tape of a derivative does not fit into memory"] * 2
    assert done.stdout.splitlines()[2] == "1.0"
