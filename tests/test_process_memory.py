"""Memory that a gradient frees is there for the next one; the collector stays as it was."""

import gc
import os
import subprocess
import sys
import threading

from activerules.process_memory import few_collections

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


def test_the_last_of_two_threads_restores_the_thresholds():
    before, seen = gc.get_threshold(), []
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first():
        with few_collections():
            first_is_in.set()
            second_is_in.wait(60)
        first_is_out.set()

    def second():
        first_is_in.wait(60)
        with few_collections():
            second_is_in.set()
            first_is_out.wait(60)
            seen.append(gc.get_threshold())

    threads = [threading.Thread(target=each) for each in (first, second)]
    try:
        gc.set_threshold(700, 9, 8)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen.append(gc.get_threshold())
    finally:
        gc.set_threshold(*before)
    assert seen == [(50_000, 9, 8), (700, 9, 8)]
