"""Forward and reverse mode at points where slopes are zero, infinite or not numbers.

One is finite where the other is, and then they agree: a product along a path is not finite in any
order of its factors if a factor is not; and neither mode follows a path that the program dropped.
"""

import math
import random

import numpy as np
import pytest
from numba import njit

import activerules as ar

inf, nan = math.inf, math.nan
POINTS = np.array([0.0, -0.0, 1.0, -1.0, 4.0])

AT_ZERO = {
    # one-sided slopes that are infinite
    "x ** 0.5": inf,
    "math.pow(x, 0.5)": inf,
    "np.power(x, 0.5)": inf,
    "np.sqrt(x)": inf,
    "abs(np.sqrt(x))": inf,
    # 0 times infinity, whichever comes first
    "(x * x) ** 0.5": nan,
    "np.sqrt(abs(x))": nan,
    "math.sqrt(math.hypot(x, x))": nan,
    "np.sqrt(x) * 0.0": nan,
    "x * np.log(x)": nan,
    "(np.sqrt(x) if x >= 0 else 0.0) ** 2": nan,
    # what is not chosen has no part in it
    "np.log(x) if x > 0 else 2.0 * x": 2.0,
    "max(np.sqrt(x), 1.0)": 0.0,
    "np.minimum(np.sqrt(x), -1.0 + x)": 1.0,
    "min(max(np.log(x), -5.0), 5.0)": 0.0,
    "(np.sqrt(x) if x > 0 else x) + (1 / x if x > 1 else 2 * x)": 3.0,
    "abs(x) + math.copysign(x, 1.0) + math.hypot(x, x)": 0.0,
}


def _expression(source, depth):
    if depth == 0:
        return source.choice(["x", "x", "x * x", "(x - 1.0)", "0.5", "2.0"])
    a, b = (_expression(source, depth - 1) for _ in range(2))
    shape = source.choice(
        "np.sqrt({a})|np.log({a})|abs({a})|({a}) ** 0.5|1.0 / ({a})|np.cbrt({a})|({a}) * ({b})|"
        "({a}) + ({b})|max({a}, {b})|min({a}, {b})|np.fmax({a}, {b})|({a} if x > 0.5 else {b})|"
        "({a} if {b} > 0.5 else x)|math.hypot({a}, {b})|math.copysign({a}, {b})".split("|")
    )
    return shape.format(a=a, b=b)


def _random_expressions(count):
    source = random.Random(5)
    return [_expression(source, 3) for _ in range(count)]


EXPRESSIONS = [*AT_ZERO, *_random_expressions(12)]


@pytest.fixture(scope="module")
def slopes():
    """By expression, at each point: reverse, forward."""
    lines = [
        f"        x = a[{k}, i]\n        out[{k}, i] = {text}" for k, text in enumerate(EXPRESSIONS)
    ]
    source = "def rows(a, out):\n    for i in range(a.shape[1]):\n" + "\n".join(lines)
    scope = {"np": np, "math": math}
    exec(source, scope)
    rows = njit(error_model="numpy")(scope["rows"])
    a = np.tile(POINTS, (len(EXPRESSIONS), 1))
    zeros, ones = np.zeros_like(a), np.ones_like(a)
    reverse, forward = zeros.copy(), zeros.copy()
    out = ar.Duplicated(zeros.copy(), ones.copy())
    ar.autodiff(ar.Reverse, rows, ar.Duplicated(a, reverse), out)
    ar.autodiff(ar.Forward, rows, ar.Duplicated(a, ones), ar.Duplicated(zeros.copy(), forward))
    return dict(zip(EXPRESSIONS, zip(reverse, forward, strict=True), strict=True))


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_modes_agree(slopes, text):
    reverse, forward = slopes[text]
    finite = np.isfinite(forward)
    np.testing.assert_array_equal(np.isfinite(reverse), finite)
    np.testing.assert_allclose(reverse[finite], forward[finite], rtol=1e-12, atol=0)


@pytest.mark.parametrize("text", AT_ZERO)
def test_both_have_the_published_slope_at_zero(slopes, text):
    for mode in slopes[text]:
        np.testing.assert_array_equal(mode[:2], AT_ZERO[text])
