"""Forward and reverse mode at points where slopes are zero, infinite or not numbers.

Where both are finite they agree. A zero that reaches a root, power, logarithm or quotient stays a
zero, whatever the slope; the modes meet such an operation from different sides, and so one may be
finite where the other is not. Neither mode follows a path that the program dropped.
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
    # reverse, forward: infinity times 0 where the infinite slope is met first, else 0
    "(x * x) ** 0.5": (nan, 0.0),
    "np.sqrt(abs(x))": (nan, 0.0),
    "math.sqrt(math.hypot(x, x))": (nan, 0.0),
    "np.sqrt(x) * 0.0": (0.0, nan),
    "x * np.log(x)": (-inf, nan),
    "(np.sqrt(x) if x >= 0 else 0.0) ** 2": (0.0, nan),
    # an infinite factor that is not the slope of a root, power, logarithm or quotient
    "math.exp(1.0 / abs(x)) * 0.0": nan,
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
    finite = np.isfinite(forward) & np.isfinite(reverse)
    np.testing.assert_allclose(reverse[finite], forward[finite], rtol=1e-12, atol=0)


@pytest.mark.parametrize("text", AT_ZERO)
def test_both_have_the_published_slope_at_zero(slopes, text):
    expected = AT_ZERO[text]
    both = expected if isinstance(expected, tuple) else (expected, expected)
    for slope, mode in zip(both, slopes[text], strict=True):
        np.testing.assert_array_equal(mode[:2], slope)


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
    """What reaches the infinite slopes is 0."""
    return (np.sqrt(x) ** 2).sum() + (np.log(x) * 0.0)[1]


X = np.array([0.0, 1.0, 4.0, 0.0])
BY_ARRAY = [
    (chosen, [3 + 1, -0.5, -1 / 16, 1.0]),
    (overwritten, [0.0, 1.5 + 1.0, 3.0, 0.0]),
    (hidden_by_zero, [0.0, 1.0, 1.0, 0.0]),
]


@pytest.mark.parametrize(("function", "expected"), BY_ARRAY)
def test_unused_entries_of_an_array_have_no_slope(function, expected):
    np.testing.assert_allclose(ar.grad(function)(X), expected, rtol=1e-14)


ANYWHERE, AWAY_FROM_ZERO = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("function", "direction"),
    [(chosen, ANYWHERE), (chosen, AWAY_FROM_ZERO), (hidden_by_zero, AWAY_FROM_ZERO)],
)
def test_modes_agree_on_used_entries_of_an_array(function, direction):
    _, found = ar.jvp(function, (X,), (direction,))
    np.testing.assert_allclose(found, ar.grad(function)(X) @ direction, rtol=1e-14)


def test_a_second_sweep_of_a_tape_tracks_use_anew():
    _, pullback = ar.vjp(chosen, X)
    for cotangent in (0.0, 2.0, 0.0, -1.0):
        np.testing.assert_allclose(pullback(cotangent)[0], cotangent * np.array(BY_ARRAY[0][1]))


# --- zero cotangents and tangents at infinite slopes ---


@njit
def potential(p, m):
    """Masses in the plane: the distances of all pairs, zero on the diagonal."""
    x, y = p[:, 0].copy(), p[:, 1].copy()
    dx = x.reshape(-1, 1) - x.reshape(1, -1)
    dy = y.reshape(-1, 1) - y.reshape(1, -1)
    inverse = np.sqrt(dx**2 + dy**2)
    for i in range(m.size):
        for j in range(m.size):
            if inverse[i, j] > 0.0:
                inverse[i, j] = 1.0 / inverse[i, j]
    return np.sum(np.triu(-(m.reshape(-1, 1) * m.reshape(1, -1)) * inverse, 1))


@njit
def stress(p, w):
    """Weighted distances; the weights of the diagonal are zero."""
    s = 0.0
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            d = math.sqrt((p[i, 0] - p[j, 0]) ** 2 + (p[i, 1] - p[j, 1]) ** 2)
            s += w[i, j] * (d - 1.0) ** 2
    return s


PAIRS = np.random.default_rng(3).normal(size=(5, 2))


def gradient_of_potential(p, m):
    """Σ_j m_i m_j (p_i - p_j) / |p_i - p_j|³."""
    apart = p[:, None] - p[None]
    cubed = np.sum(apart**2, axis=2) ** 1.5 + np.eye(len(m))
    return np.einsum("i,j,ijk,ij->ik", m, m, apart, 1 / cubed)


def gradient_of_stress(p, w):
    apart = p[:, None] - p[None]
    d = np.sqrt(np.sum(apart**2, axis=2)) + np.eye(len(w))
    return np.einsum("ij,ijk->ik", 2 * (w + w.T) * (1.0 - 1.0 / d), apart)


@pytest.mark.parametrize(
    ("function", "expected", "other"),
    [
        (potential, gradient_of_potential, np.array([1.0, 2.0, 0.5, 1.5, 3.0])),
        (stress, gradient_of_stress, np.triu(np.ones((5, 5)), 1)),
    ],
)
def test_distances_of_all_pairs_with_themselves(function, expected, other):
    gradient = expected(PAIRS, other)
    np.testing.assert_allclose(ar.grad(function)(PAIRS, other), gradient, rtol=1e-11)
    direction = np.cos(PAIRS)
    _, found = ar.jvp(function, (PAIRS, other), (direction, np.zeros_like(other)))
    assert found == pytest.approx(np.sum(gradient * direction), rel=1e-11)


STEEP = {
    "np.sqrt(x)": (0.0, inf),
    "np.cbrt(x)": (0.0, inf),
    "x ** 0.5": (0.0, inf),
    "x ** -1.0": (0.0, -inf),
    "1.0 / x": (0.0, -inf),
    "np.log(x)": (0.0, inf),
    "np.log2(x)": (0.0, inf),
    "np.log10(x)": (0.0, inf),
    "np.log1p(x)": (-1.0, inf),
    "np.arcsin(x)": (1.0, inf),
    "np.arccos(x)": (1.0, -inf),
    "np.arccosh(x)": (1.0, inf),
    "np.arctanh(x)": (1.0, inf),
    "math.gamma(x + 1.0)": (-1.0, nan),
    "math.lgamma(x + 1.0)": (-1.0, nan),
    "np.arctan2(x, x)": (0.0, nan),
}


@pytest.fixture(scope="module")
def steep():
    lines = [f"    out[{k}] = {t.replace('x', f'a[{k}]')}" for k, t in enumerate(STEEP)]
    lines = [line.replace(f"ea[{k}]p", "exp") for k, line in enumerate(lines)]
    scope = {"np": np, "math": math}
    exec("def each(a, out):\n" + "\n".join(lines), scope)
    return njit(error_model="numpy")(scope["each"])


@pytest.mark.parametrize("mode", [ar.Reverse, ar.Reverse.strong_zero()])
def test_a_zero_cotangent_stays_zero_at_an_infinite_slope(steep, mode):
    a = np.array([at for at, _ in STEEP.values()])
    for seed in (0.0, -0.0, 1.0):
        bars = np.full(len(a), 5.0)
        shadow = ar.Duplicated(np.zeros(len(a)), np.full(len(a), seed))
        ar.autodiff(mode, steep, ar.Duplicated(a, bars), shadow)
        slopes = np.array([slope for _, slope in STEEP.values()])
        np.testing.assert_array_equal(bars, 5.0 + (slopes if seed else np.zeros(len(a))))


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_zero_tangent_stays_zero_at_an_infinite_slope(steep, lanes):
    a = np.array([at for at, _ in STEEP.values()])
    slopes = np.array([slope for _, slope in STEEP.values()])
    moved = [np.full(len(a), v) for v in (0.0, 1.0, -0.0)[:lanes]]
    found = [np.full(len(a), 7.0) for _ in moved]
    if lanes == 1:
        arguments = ar.Duplicated(a, moved[0]), ar.Duplicated(np.zeros(len(a)), found[0])
    else:
        arguments = (
            ar.BatchDuplicated(a, tuple(moved)),
            ar.BatchDuplicated(np.zeros(len(a)), tuple(found)),
        )
    ar.autodiff(ar.Forward, steep, *arguments)
    for tangent, out in zip(moved, found, strict=True):
        np.testing.assert_array_equal(out, slopes if tangent[0] else 0.0)


def test_jacobians_beside_a_root_of_zero():
    root = njit(lambda x: np.sqrt(x))
    for jacobian in (ar.jacfwd(root), ar.jacrev(root)):
        np.testing.assert_array_equal(
            jacobian(np.array([0.0, 1.0, 4.0])), np.diag([inf, 0.5, 0.25])
        )


@njit
def quotient(x):
    return math.log(2.0 + x * x) / (1.0 + x) + math.sqrt(1.0 + x * x) * x * x


@pytest.mark.parametrize("forward", [ar.Forward, ar.Forward.strong_zero()])
def test_second_derivatives_where_a_tangent_is_zero(forward):
    """The tangent of x * x is zero at 0, its derivative is not."""
    slope = njit(lambda x: ar.autodiff(forward, quotient, ar.Duplicated(x, 1.0)))
    assert ar.grad(slope)(0.0) == pytest.approx(1.0 + 2.0 * math.log(2.0) + 2.0, rel=1e-14)
    along = njit(lambda v: ar.autodiff(forward, quotient, ar.Duplicated(0.5, v)))
    c, r = 2.25, math.sqrt(1.25)
    expected = 1.0 / c / 1.5 - math.log(c) / 2.25 + 0.125 / r + r
    assert ar.grad(along)(0.0) == pytest.approx(expected, rel=1e-14)


# --- what is NaN ---


@njit
def magnitudes(x):
    """|x| in several forms, and missing data that a mask drops."""
    kept = np.where(np.isnan(x), 0.0, np.abs(x))
    return np.abs(x[:3]).sum() + 10.0 * kept.sum() + 0.0 * x[0] + math.copysign(x[4], -1.0)


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_the_slope_of_a_modulus_is_nan_at_nan_alone(number):
    x = np.array([2.0, -3.0, 0.0, nan, nan], number)
    gradient = ar.grad(magnitudes)(x)
    np.testing.assert_array_equal(gradient, [11.0, -11.0, 0.0, 0.0, nan])
    along = [ar.jvp(magnitudes, (x,), (row,))[1] for row in np.eye(5, dtype=number)]
    np.testing.assert_array_equal(along, gradient)
    shadow = np.zeros_like(x)
    mode = ar.Reverse.strong_zero()
    ar.autodiff(mode, magnitudes, ar.Active, ar.Duplicated(x, shadow))
    np.testing.assert_array_equal(shadow, gradient)
