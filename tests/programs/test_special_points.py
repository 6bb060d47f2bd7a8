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


# --- arrays: what of them the program used ---


@njit
def chosen(x):
    """Of each element one of two array expressions, nested; copies of arrays on the way."""
    roots = np.where(x > 0, np.sqrt(x), 0.0)
    return (
        np.where(x != 0.0, roots / x, x).sum() + np.where(x[0] > 0, np.log(x[0]), 3 * x[0]).item()
    )


@njit
def overwritten(x):
    roots = np.sqrt(x)
    for i in range(len(x)):
        if x[i] == 0.0:
            roots[i] = 3.0 * x[i]
    return (roots * x).sum() + np.log(x)[1]


@njit
def hidden_by_zero(x):
    """The infinite slope is asked for, and multiplied with 0."""
    return (np.sqrt(x) ** 2).sum() + (np.log(x) * 0.0)[1]


X = np.array([0.0, 1.0, 4.0, 0.0])
BY_ARRAY = [
    (chosen, [3 + 1, -0.5, -1 / 16, 1.0]),
    (overwritten, [0.0, 1.5 + 1.0, 3.0, 0.0]),
    (hidden_by_zero, [nan, 1.0, 1.0, nan]),
]


@pytest.mark.parametrize(("function", "expected"), BY_ARRAY)
def test_what_is_not_used_of_an_array_has_no_slope(function, expected):
    np.testing.assert_allclose(ar.grad(function)(X), expected, rtol=1e-14)


@pytest.mark.parametrize("function", [chosen, hidden_by_zero])
def test_modes_agree_on_what_is_used_of_an_array(function):
    gradient = ar.grad(function)(X)
    for direction in np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 0.0]]):
        _, found = ar.jvp(function, (X,), (direction,))
        np.testing.assert_allclose(found, gradient @ direction, rtol=1e-14)


def test_a_tape_that_is_swept_again_tells_it_anew():
    _, pullback = ar.vjp(chosen, X)
    for cotangent in (0.0, 2.0, 0.0, -1.0):
        np.testing.assert_allclose(pullback(cotangent)[0], cotangent * np.array(BY_ARRAY[0][1]))
