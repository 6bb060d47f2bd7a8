"""Recursion too deep for the stack: a derivative raises, and the process goes on."""

import subprocess
import sys

DEEP = """
import math
import numpy as np
from numba import njit
import activerules as ar

@njit
def deep(x, n):
    if n == 0:
        return x[0]
    items = [x * 1.0001]
    return deep(items[0], n - 1) * 1.0001 + math.sin(x[0])

@njit
def light(x, n):
    if n == 0:
        return x
    return light(x, n - 1) * 1.0001 + math.sin(x)

slope = ar.grad(light)(0.3, 10_000)
expected = (light(0.3 + 1e-6, 10_000) - light(0.3 - 1e-6, 10_000)) / 2e-6
print(abs(slope - expected) < 1e-5 * abs(expected))

gradient = ar.grad(deep)
x, step = np.array([0.3, 0.2]), np.array([1e-6, 0.0])
slope = gradient(x, 2_000)[0]
expected = (deep(x + step, 2_000) - deep(x - step, 2_000)) / 2e-6
print(abs(slope - expected) < 1e-5 * abs(expected))
for _ in range(2):
    try:
        gradient(x, 10_000_000)
    except RecursionError as error:
        print(error)
print(gradient(x, 0)[0], gradient(x, 2_000)[0] == slope)

along = np.array([1.0, 0.0]), None
print(abs(ar.jvp(deep, (x, 2_000), along)[1] - slope) < 1e-12 * abs(slope))
try:
    ar.jvp(deep, (x, 10_000_000), along)
except RecursionError as error:
    print(error)
print(abs(ar.jvp(deep, (x, 2_000), along)[1] - slope) < 1e-12 * abs(slope))

@njit
def rate(x, n):
    return ar.jvp(light, (x, n), (1.0, None))[1]

expected = (rate(0.3 + 1e-6, 9) - rate(0.3 - 1e-6, 9)) / 2e-6
print(abs(ar.grad(rate)(0.3, 9) - expected) < 1e-5 * abs(expected))
"""


def test_recursion_too_deep_for_the_stack():
    """10,000 levels of numbers fit, and 2,000 with a list of arrays in each; where Numba's own
    function ends the process, the derivatives of both modes raise, and the process can go on. What
    counts the levels can be differentiated again.
    """
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=True)
    message = "the recursion of a derivative does not fit onto the stack"
    assert done.stdout.splitlines() == [
        *("True", "True", message, message, "1.0 True"),
        *("True", message, "True", "True"),
    ]
