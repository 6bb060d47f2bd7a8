"""Memory that a gradient frees is there for the next one."""

import os
import subprocess
import sys

PROGRAM = """
import resource

import numpy as np
from numba import njit

import activerules as ar


@njit
def f(a, b):
    return ((a - b) * (a + b)).sum() + (a * b) @ (a - 2.0 * b)


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


a, b = np.random.default_rng(0).random((2, 300_000))
gradient = ar.value_and_grad(f, (0, 1))
for _ in range(3):
    gradient(a, b)
before = faults()
for _ in range(20):
    gradient(a, b)
print((faults() - before) / 20)
"""
# pages of four kilobytes in an array of PROGRAM
PAGES = 300_000 * 8 / 4096


def page_faults(**environment: str) -> float:
    """Page faults per call of the gradient, in a process of its own."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def test_a_gradient_asks_the_system_for_no_memory():
    assert page_faults() < PAGES / 10


def test_a_threshold_of_the_user_stays():
    assert page_faults(MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072") > PAGES
