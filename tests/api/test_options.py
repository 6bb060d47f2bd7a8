"""Options of a mode that concern values: holomorphic derivatives, and zeros that stay zero."""

import cmath
import math

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def analytic(z, w, pair):
    return cmath.exp(z * w) / (z + 2j) + cmath.sqrt(w) * pair[0] ** pair[1]


def complex_step(f, z):
    """f'(z) of a holomorphic function, by central differences in both real directions."""
    h = 1e-5
    along = (f(z + h) - f(z - h)) / (2 * h)
    across = (f(z + 1j * h) - f(z - 1j * h)) / (2j * h)
    assert along == pytest.approx(across, rel=1e-8)
    return along


def test_holomorphic_gives_the_complex_derivative():
    z, w, pair = 0.3 + 0.4j, -1.2 + 0.5j, (1.5 - 1j, 2 + 0j)
    mode = ar.ReverseWithPrimal.holomorphic()
    (dz, dw, dpair), value = ar.autodiff(mode, analytic, *map(ar.Active, (z, w, pair)))
    assert value == analytic(z, w, pair)
    assert dz == pytest.approx(complex_step(lambda z: analytic(z, w, pair), z))
    assert dw == pytest.approx(complex_step(lambda w: analytic(z, w, pair), w))
    for k in range(2):

        def of_item(item, k=k):
            return analytic(z, w, (item, pair[1]) if k == 0 else (pair[0], item))

        assert dpair[k] == pytest.approx(complex_step(of_item, pair[k]))


def test_holomorphic_inside_njit():
    @njit
    def slope(z):
        return ar.autodiff(ar.Reverse.holomorphic(), cube, ar.Active(z))[0]

    assert slope(1 + 2j) == pytest.approx(3 * (1 + 2j) ** 2)


@njit
def cube(z):
    return z**3


@njit
def squared_modulus(z):
    return abs(z) ** 2


@njit
def first(a):
    return a[0]


def test_holomorphic_refuses_what_has_no_complex_derivative():
    mode = ar.Reverse.holomorphic()
    with pytest.raises(ar.NotAFloatReturn, match="not a complex number"):
        ar.autodiff(mode, squared_modulus, ar.Active(1j))
    with pytest.raises(ar.ActivityError, match="the mode is holomorphic"):
        ar.autodiff(mode, cube, ar.Active(1.0))
    with pytest.raises(ar.ActivityError, match="the mode is holomorphic"):
        ar.autodiff(mode, first, ar.Duplicated(np.ones(2) * 1j, np.zeros(2) * 1j))
    with pytest.raises(ar.NotAFloatReturn, match=r"Reverse.holomorphic\(\)"):
        ar.autodiff(ar.Reverse, cube, ar.Active(1j))


@njit
def overflowing(x, y):
    return math.exp(x) * y + x


def test_strong_zero_keeps_a_zero_tangent_zero():
    """Zero times a number that overflowed is NaN unless the option says otherwise."""
    x, y = ar.Duplicated(800.0, 0.0), ar.Duplicated(2.0, 0.0)
    assert math.isnan(ar.autodiff(ar.Forward, overflowing, x, y))
    assert ar.autodiff(ar.Forward.strong_zero(), overflowing, x, y) == 0.0
    lanes = ar.BatchDuplicated(800.0, (0.0, 1.0)), ar.BatchDuplicated(2.0, (0.0, 0.0))
    assert ar.autodiff(ar.Forward.strong_zero(), overflowing, *lanes) == (0.0, math.inf)


def test_strong_zero_in_split_mode():
    mode = ar.ReverseSplitNoPrimal.strong_zero()
    augmented, reverse = ar.autodiff_thunk(mode, overflowing, ar.Active, ar.Active, ar.Active)
    args = ar.Active(800.0), ar.Active(0.0)
    assert reverse(*args, 1.0, augmented(*args)[0]) == (1.0, math.inf)


def test_strong_zero_keeps_a_zero_cotangent_zero():
    """The slope of exp overflows, and y = 0 multiplies it."""
    plain = ar.autodiff(ar.Reverse, overflowing, ar.Active(800.0), ar.Active(0.0))
    assert math.isnan(plain[0])
    strong = ar.autodiff(ar.Reverse.strong_zero(), overflowing, ar.Active(800.0), ar.Active(0.0))
    assert strong == (1.0, math.inf)


@njit
def square(x):
    return x * x


@ar.augmented_primal(square)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(x.val * x.val, None, None)


@ar.reverse(square)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 1.0 if config.strong_zero else 2.0


def test_rules_see_strong_zero():
    f = njit(lambda x: square(x))
    assert ar.autodiff(ar.Reverse, f, ar.Active(3.0)) == (2.0,)
    assert ar.autodiff(ar.Reverse.strong_zero(), f, ar.Active(3.0)) == (1.0,)


@njit
def moving(x, pair, s):
    """Writes into an array, and returns a view of it."""
    for i in range(x.size):
        x[i] = x[i] * pair[0][i] + s * pair[1][i]
    return x[1:]


KEPT = np.array([0.5, 0.25])


def moving_arguments(constant):
    """x, and the two arrays of the pair; those of these numbers are their own shadows."""
    arrays = [np.array([1.0, 2.0]) * k for k in (1.0, 3.0, 5.0)]
    shadows = [a if k in constant else KEPT.copy() for k, a in enumerate(arrays)]
    pair = ar.Duplicated((arrays[1], arrays[2]), (shadows[1], shadows[2]))
    return ar.Duplicated(arrays[0], shadows[0]), pair


@pytest.mark.parametrize("constant", [(), (0,), (0, 2)])
def test_an_array_that_is_its_own_shadow_is_constant(constant, unfreed):
    """ẋ' = ẋ p + x ṗ + s q̇, where the tangent of what is constant is zero."""
    mode = ar.Forward.runtime_activity()
    (x, pair), s = moving_arguments(constant), ar.Duplicated(2.0, 0.0)
    moved = [np.zeros(2) if k in constant else KEPT for k in range(3)]
    p, q = pair.val
    expected = moved[0] * p + x.val * moved[1] + 2.0 * moved[2]
    primal = x.val * p + 2.0 * q
    np.testing.assert_allclose(ar.autodiff(mode, moving, x, pair, s), expected[1:])
    np.testing.assert_allclose(x.val, primal)
    if 0 not in constant:
        np.testing.assert_allclose(x.dval, expected)
    assert unfreed(lambda: ar.autodiff(mode, moving, x, pair, s)) == 0


@njit
def moved_product(x, pair, s):
    moving(x, pair, s)
    return x[0] * x[1]


@pytest.mark.parametrize("constant", [(), (0,), (1, 2)])
def test_runtime_activity_in_reverse_and_split_mode(constant, unfreed):
    """ȳ = the slopes of the product, plus what the shadow of x held, if it has one."""
    x, pair = moving_arguments(constant)
    before, (p, q) = x.val.copy(), pair.val
    y = before * p + 2.0 * q
    y_bar = y[::-1] + (0.0 if 0 in constant else KEPT)
    bars = y_bar * p, KEPT + y_bar * before, KEPT + 2.0 * y_bar
    mode = ar.Reverse.runtime_activity()
    (_, _, by_s) = ar.autodiff(mode, moved_product, x, pair, ar.Active(2.0))
    assert by_s == pytest.approx(y_bar @ q)
    np.testing.assert_allclose(x.val, y)
    np.testing.assert_array_equal(q, [5.0, 10.0])
    for k, found in enumerate((x.dval, *pair.dval)):
        if k not in constant:
            np.testing.assert_allclose(found, bars[k])
    mode = ar.ReverseSplitNoPrimal.runtime_activity()
    kinds = ar.Active, ar.Duplicated, ar.Duplicated, ar.Active
    augmented, reverse = ar.autodiff_thunk(mode, moved_product, *kinds)
    args = *moving_arguments(constant), ar.Active(2.0)
    assert reverse(*args, 1.0, augmented(*args)[0])[2] == pytest.approx(by_s)
    for again, found in zip((args[0].dval, *args[1].dval), (x.dval, *pair.dval), strict=True):
        np.testing.assert_allclose(again, found)
    assert unfreed(lambda: augmented(*args)) == 0


@njit
def squares_moved(x, p):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i] * p[i]
        x[i] = x[i] * p[i]
    return total


@pytest.mark.parametrize("constant", [(), (0,), (1,), (2, 3), (1, 2)])
def test_runtime_activity_in_a_batch_is_decided_lane_by_lane(constant):
    """Numbers 0 and 1 are the shadows of x, 2 and 3 those of p; what is constant is not written."""
    before, p = np.array([1.0, -2.0]), np.array([3.0, 0.5])
    x = before.copy()
    shadows = [np.array([0.3, 0.7]) * (k + 1) for k in range(4)]
    given = [(x, x, p, p)[k] if k in constant else shadows[k].copy() for k in range(4)]
    ar.autodiff(
        ar.Reverse.runtime_activity(),
        squares_moved,
        ar.BatchDuplicated(x, tuple(given[:2])),
        ar.BatchDuplicated(p, tuple(given[2:])),
    )
    np.testing.assert_allclose(x, before * p)
    np.testing.assert_array_equal(p, [3.0, 0.5])
    for lane in range(2):
        after = np.zeros(2) if lane in constant else shadows[lane]
        if lane not in constant:
            np.testing.assert_allclose(given[lane], 2.0 * before * p + after * p)
        if lane + 2 not in constant:
            expected = shadows[lane + 2] + before**2 + after * before
            np.testing.assert_allclose(given[lane + 2], expected)


@njit
def waves(x, s):
    total = 0.0
    for i in range(x.size):
        total += math.sin(x[i] * s) * math.exp(-x[i])
    return total


def test_fast_agrees_to_the_last_digits():
    x = np.linspace(0.1, 3.0, 41)
    found = []
    for mode in (ar.ReverseWithPrimal, ar.ReverseWithPrimal.fast()):
        x_bar = np.zeros(41)
        (_, by_s), value = ar.autodiff(mode, waves, ar.Duplicated(x, x_bar), ar.Active(1.3))
        found.append(np.array([value, by_s, *x_bar]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-13, atol=1e-15)
    along = ar.Const(x), ar.Duplicated(1.3, 1.0)
    assert ar.autodiff(ar.Forward.fast(), waves, *along) == pytest.approx(found[0][1], rel=1e-13)


def test_fast_inside_njit():
    @njit
    def slope(x):
        return ar.autodiff(ar.Reverse.fast(vector_math=False), waves, ar.Const(x), ar.Active(1.3))

    x = np.linspace(0.1, 3.0, 41)
    expected = ar.autodiff(ar.Reverse, waves, ar.Const(x), ar.Active(1.3))
    assert slope(x)[1] == pytest.approx(expected[1], rel=1e-13)


@pytest.mark.parametrize("option", ["vector_math", "fast"])
def test_nested_vector_math(option):
    """The functions of the inner derivative have vector forms, and derivatives."""
    forward, reverse = (getattr(mode, option)() for mode in (ar.Forward, ar.Reverse))

    @njit
    def rate(s):
        along = ar.autodiff(forward, decay, ar.Duplicated(s, 0.5))
        (slope,) = ar.autodiff(reverse, decay, ar.Active(s))
        return along * slope

    @njit
    def decay(s):
        return math.exp(-s) + math.tanh(s)

    def expected(s):
        t = math.tanh(s)
        slope, curvature = 1.0 - t * t - math.exp(-s), math.exp(-s) - 2.0 * t * (1.0 - t * t)
        return slope * curvature

    assert ar.grad(rate)(0.3) == pytest.approx(expected(0.3), rel=1e-12)
    tangent = ar.autodiff(forward, rate, ar.Duplicated(0.3, 1.0))
    assert tangent == pytest.approx(expected(0.3), rel=1e-12)


@pytest.mark.parametrize(
    "call", [lambda f: ar.vjp(f, 1.0, y=2.0), lambda f: ar.jvp(f, (1.0,), (1.0,), y=2.0)]
)
def test_primals_have_no_names(call):
    with pytest.raises(TypeError, match=r"no option 'y'.* among the primals"):
        call(njit(lambda x, y: x * y))
