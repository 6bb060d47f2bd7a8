"""Finite differences against closed forms, error estimates included."""

import dataclasses
import math

import numba
import numpy as np
import pytest
from numba import typed

from activerules.annotations.values import zeros_with_strides
from activerules.errors import ArityError, TangentMismatch
from activerules.testing.numeric import (
    copied,
    copy_layout,
    directional_derivative,
    gradient_fd,
    inner,
    is_differentiable,
    rand_tangent,
    shifted,
    well_conditioned,
)
from activerules.testing.schemes import (
    backward_fdm,
    central_fdm,
    extrapolate_fdm,
    forward_fdm,
)

CLOSED_FORMS = [
    (math.exp, math.exp, 0.7),
    (math.sin, math.cos, 3.0),
    (math.log, lambda x: 1 / x, 0.02),
    (math.sqrt, lambda x: 0.5 / math.sqrt(x), 0.11),
    (lambda x: x**7, lambda x: 7 * x**6, 1.3),
    (lambda x: 1e8 * math.tanh(x), lambda x: 1e8 / math.cosh(x) ** 2, 0.4),
    (lambda x: 1e-12 * math.cos(5 * x), lambda x: -5e-12 * math.sin(5 * x), 1.0),
    (lambda x: math.sin(300 * x), lambda x: 300 * math.cos(300 * x), 0.2),
    (abs, lambda x: -1.0, -0.004),
    (lambda x: 3.0, lambda x: 0.0, 1.0),
]


FAST = [
    (lambda x: 1e6 * math.sin(1e3 * x), lambda x: 1e9 * math.cos(1e3 * x)),
    (lambda x: 1e6 * math.sin(1e5 * x), lambda x: 1e11 * math.cos(1e5 * x)),
    (lambda x: math.exp(-2e3 * (x - 0.3)), lambda x: -2e3),
]


@pytest.mark.parametrize(("f", "derivative"), FAST)
def test_steps_adapt_to_fast_functions(f, derivative):
    value, error = central_fdm(5, 1).estimate(safe(f), 0.3)
    assert abs(value - derivative(0.3)) <= 10 * error
    assert error <= 1e-6 * abs(value)


def random_functions():
    """Functions, their derivatives by order, a point, and how far from it they may be asked."""
    rng = np.random.default_rng(7)
    for _ in range(150):
        rate, size = 10 ** rng.uniform(-1, 6), 10 ** rng.uniform(-6, 6)
        phase, x = rng.uniform(0, 2 * np.pi), rng.uniform(-2, 2)

        def wave(t, k=0, rate=rate, size=size, phase=phase):
            return size * rate**k * math.sin(rate * t + phase + k * math.pi / 2)

        yield wave, wave, x, math.inf
    for _ in range(20):
        p, x = np.polynomial.Polynomial(rng.standard_normal(rng.integers(1, 9))), rng.uniform(-3, 3)
        yield p, lambda t, k, p=p: p.deriv(k)(t), x, math.inf
        rate = rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 3)
        yield (
            lambda t, rate=rate, x=x: np.exp(min(rate * (t - x), 600.0)),
            lambda t, k, rate=rate: rate**k, x, math.inf,
        )  # fmt: skip
        x = 10 ** rng.uniform(-6, 0)
        yield lambda t: 1 / t if t else math.inf, lambda t, k: (-1) ** k * k / t ** (k + 1), x, 2.0
        yield math.sqrt, lambda t, k: (0.5, -0.25)[k - 1] * t ** (0.5 - k), x, x
    for value in (0.0, 1.0, -3.7, 1e10, 1e-10):
        yield lambda t, value=value: value, lambda t, k: 0.0, 1.5, math.inf


@pytest.mark.parametrize(
    ("order", "derivative", "evaluations"), [(2, 1, 28), (3, 1, 30), (5, 2, 56)]
)
def test_no_error_is_far_larger_than_its_estimate(order, derivative, evaluations):
    """But where the estimate says that the value is worth nothing, which is rare."""
    untrusted, count = 0, []
    for f, slope, x, reach in random_functions():
        seen = []
        scheme = central_fdm(order, derivative, max_range=reach)
        value, error = scheme.estimate(lambda t, f=f, seen=seen: seen.append(t) or f(t), x)
        expected = slope(x, derivative)
        is_trusted = error <= 1e-3 * abs(value) or not expected
        assert not is_trusted or abs(value - expected) <= 10 * error + 1e-15 * abs(expected)
        untrusted += not is_trusted
        count.append(len(seen))
    assert untrusted <= 2
    assert np.mean(count) <= evaluations


def test_evaluations_of_a_smooth_function():
    seen = []
    central_fdm(3)(lambda t: seen.append(t) or math.exp(t), 0.7)
    assert len(seen) == len(set(seen)) <= 20


def test_chance_agreement_is_not_trusted():
    """Sampled at halved steps from 0.1 these seem to vary slowly, by 1e9 less than they do."""
    for rate, phase, x, derivative in (
        (588894.7027880099, 2.6892231473259427, 0.09496043164192125, 2),
        (533943.3103914107, 3.2, -1.767941064890929, 2),
        (943223.0055727153, 2.9, 0.990153133877965, 1),
    ):
        value, error = central_fdm(5, derivative).estimate(
            lambda t, rate=rate, phase=phase: math.sin(rate * t + phase), x
        )
        angle = rate * x + phase + derivative * math.pi / 2
        is_trusted = error <= 1e-3 * abs(value)
        assert not is_trusted or abs(value - rate**derivative * math.sin(angle)) <= 10 * error


def test_one_sided_schemes_stay_on_their_side():
    def from_zero(x):
        assert x >= 0
        return math.exp(x) + x**2.5

    def to_zero(x):
        assert x <= 0
        return math.exp(x) + (-x) ** 2.5

    for scheme, f in ((forward_fdm(5), from_zero), (backward_fdm(5), to_zero)):
        value, error = scheme.estimate(f, 0.0)
        assert abs(value - 1.0) <= 10 * error < 1e-4
    assert forward_fdm(6, 2)(math.exp, 0.0) == pytest.approx(1.0, rel=1e-6)


def test_no_step_leaves_the_range():
    visited = []

    def f(x):
        visited.append(x)
        return math.log(x)

    assert central_fdm(5, max_range=1e-3)(f, 2e-3) == pytest.approx(500.0, rel=1e-9)
    assert max(abs(x - 2e-3) for x in visited) <= 1e-3 * (1 + 1e-12)
    with pytest.raises(ValueError, match="max_range"):
        central_fdm(5, max_range=0.0)


def test_extrapolation_from_a_large_step():
    value, error = extrapolate_fdm(central_fdm(2), math.sin, 0.5, initial_step=4.0)
    assert abs(value - math.cos(0.5)) <= 10 * error < 1e-9


@pytest.mark.parametrize("order", [2, 3, 5, 7])
@pytest.mark.parametrize(("f", "derivative", "x"), CLOSED_FORMS)
def test_the_error_estimate_covers_the_error(f, derivative, x, order):
    value, error = central_fdm(order).estimate(safe(f), x)
    expected = derivative(x)
    assert abs(value - expected) <= 10 * error + 1e-14 * abs(expected)
    assert error <= 1e-7 * abs(expected) + 1e-12


def safe(f):
    """As compiled programs do: NaN outside the domain instead of an exception."""

    def guarded(x):
        try:
            return f(x)
        except ValueError:
            return math.nan

    return guarded


@pytest.mark.parametrize(("derivative", "expected"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 16.0)])
def test_higher_derivatives(derivative, expected):
    value, error = central_fdm(7, derivative).estimate(lambda x: math.exp(2 * x), 0.0)
    assert value == pytest.approx(expected, abs=10 * error)
    assert error < 1e-3 * expected


def test_a_polynomial_is_exact_to_rounding():
    value = central_fdm(5)(lambda x: x**4 - x, 2.0)
    assert value == pytest.approx(31.0, rel=1e-12)


def test_array_valued_functions():
    value, error = central_fdm(3).estimate(lambda x: np.array([math.sin(x), x * x]), 0.5)
    np.testing.assert_allclose(value, [math.cos(0.5), 1.0], rtol=1e-9)
    assert error < 1e-8


def test_a_kink_within_the_first_steps_is_stepped_over():
    value, _ = central_fdm(3).estimate(lambda x: max(x, 0.0) ** 2 + abs(x), 0.03)
    assert value == pytest.approx(1.06, rel=1e-8)


def test_a_kink_at_the_point_is_not_mistaken_for_a_derivative_of_one():
    value, _ = central_fdm(3).estimate(abs, 0.0)
    assert value == 0.0


@pytest.mark.parametrize("f", [lambda x: math.log(x), lambda x: 1.0 / math.sqrt(x - 1e-4)])
def test_steps_that_leave_the_domain_are_made_shorter(f):
    """Where a function raises it has no value; at the point itself its error comes out."""
    x = 3e-4
    value, error = central_fdm(3).estimate(f, x)
    exact = 1.0 / x if f(math.e) == 1.0 else -0.5 * (x - 1e-4) ** -1.5
    assert abs(value - exact) <= error <= 1e-6 * abs(exact)
    with pytest.raises((ValueError, ZeroDivisionError)):
        central_fdm(3).estimate(f, -1.0)
    with pytest.raises(ZeroDivisionError):
        central_fdm(3).estimate(lambda x: math.sin(x) / x, 0.0)


def test_noise_shows_in_the_error():
    noise = np.random.default_rng(0)
    value, error = central_fdm(3).estimate(lambda x: x + 1e-6 * noise.normal(), 1.0)
    assert abs(value - 1.0) <= 10 * error
    assert error > 1e-8


def test_single_precision_states_its_own_precision():
    value, error = central_fdm(3).estimate(lambda x: np.float32(math.exp(np.float32(x))), 0.5)
    assert abs(value - math.exp(0.5)) <= 10 * error
    assert 1e-8 < error < 1e-2


@pytest.mark.parametrize("scheme", [central_fdm(3), central_fdm(5), forward_fdm(5)])
def test_what_is_rounded_to_single_precision_inside_is_no_staircase(scheme):
    rng = np.random.default_rng(4)
    for size in (1, 3, 30):
        x, v, w = rng.normal(size=(3, size))
        value, error = scheme.estimate(
            lambda t, x=x, v=v, w=w: np.sum((x + t * v).astype(np.float32).astype(float) * w), 0.0
        )
        assert abs(value - v @ w) < 5 * error < 0.05


def test_steps_and_kinks_that_are_near_keep_the_slope_at_the_point():
    for distance in (1e-4, 1e-3, 0.1):
        value, error = central_fdm(5).estimate(lambda t, d=distance: np.maximum(t - d, 0.0), 0.0)
        assert abs(value) <= error < 1e-5
        value, error = central_fdm(5).estimate(
            lambda t, d=distance: np.floor(t / d), 0.5 * distance
        )
        assert abs(value) <= error < 1e-5


def in_single_precision(f):
    return lambda x: float(np.float32(f(np.float32(x))))


@pytest.mark.parametrize("order", [3, 5])
@pytest.mark.parametrize(
    ("f", "derivative"),
    [
        (lambda x: x * x, 0.6),
        (np.sin, math.cos(0.3)),
        (lambda x: x * np.float32(1.5) + np.float32(0.1), 1.5),
        (lambda x: np.float32(1e5) / x, -1e5 / 0.09),
    ],
)
def test_single_precision_behind_a_float_is_no_staircase(f, derivative, order):
    """As compiled functions that return a float32: below its precision their values stand still."""
    value, error = central_fdm(order).estimate(in_single_precision(f), 0.3)
    assert abs(value - derivative) <= 10 * error
    assert error < 1e-3 * abs(derivative)


@pytest.mark.parametrize(("order", "derivative"), [(1, 1), (3, 3), (3, 0)])
def test_schemes_that_do_not_exist(order, derivative):
    with pytest.raises(ValueError, match="points give no derivative"):
        central_fdm(order, derivative)


def test_directional_derivative_moves_only_what_has_a_tangent():
    matrix, x, y = well_conditioned(3), np.array([1.0, 2.0, -1.0]), 0.3
    x_dot = np.array([0.5, -1.0, 2.0])

    def f(matrix, x, y, n):
        x *= y
        return float(x @ matrix @ x) * n

    value, error = directional_derivative(f, (matrix, x, y, 2), (None, x_dot, None, None))
    expected = 2 * y * y * float(x_dot @ (matrix + matrix.T) @ x)
    assert abs(value - expected) <= 10 * error + 1e-12
    np.testing.assert_array_equal(x, [1.0, 2.0, -1.0])


def test_gradient_fd():
    def f(x, k):
        return float(np.sum(np.sin(x) * k))

    x = np.array([[0.1, 0.4], [2.0, -1.0]])
    np.testing.assert_allclose(gradient_fd(f, (x, 3.0)), 3 * np.cos(x), rtol=1e-9)
    assert gradient_fd(f, (x, 3.0), 1) == pytest.approx(float(np.sum(np.sin(x))))
    z = np.array([1.0 + 2.0j, -0.5j])
    assert gradient_fd(lambda z: abs(z) ** 2, (z[0],)) == pytest.approx(2 * z[0])
    np.testing.assert_allclose(gradient_fd(lambda z: np.sum(abs(z) ** 2), (z,)), 2 * z, rtol=1e-9)


LAYOUTS = {
    "C": np.arange(12.0).reshape(3, 4),
    "F": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "reversed": np.arange(5.0)[::-1],
    "strided": np.arange(24.0).reshape(2, 3, 4)[:, ::2, ::-3],
    "transposed": np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    "broadcast": np.broadcast_to(np.arange(3.0), (2, 3))[:1],
    "empty": np.zeros((0, 3)),
    "zero-dimensional": np.array(3.0),
    "single": np.arange(4, dtype=np.float32)[1::2],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_copies_keep_the_layout(name):
    x = LAYOUTS[name]
    for y in (copy_layout(x), rand_tangent(x, np.random.default_rng(0)), copied(x)):
        assert y.strides == x.strides
        assert y.dtype == x.dtype
        assert not np.shares_memory(x, y)
    np.testing.assert_array_equal(copy_layout(x), x)
    assert not np.any(zeros_with_strides(x))


def test_trees():
    x = (1.0, (np.ones(2), 3), "name")
    assert is_differentiable(x)
    assert not is_differentiable((1, "name", None, np.arange(3)))
    tangent = rand_tangent(x, np.random.default_rng(1))
    assert isinstance(tangent[0], float)
    assert tangent[1][1] is None
    assert tangent[2] is None
    moved = shifted(x, 2.0, tangent)
    assert moved[0] == 1.0 + 2.0 * tangent[0]
    np.testing.assert_array_equal(moved[1][0], 1.0 + 2.0 * tangent[1][0])
    assert moved[1][1] == 3
    assert inner((2.0, (np.ones(2), None), None), tangent) == pytest.approx(
        2 * tangent[0] + tangent[1][0].sum()
    )


@dataclasses.dataclass
class Model:
    rate: float
    weights: np.ndarray
    name: str = "a"


def test_tangents_of_dictionaries_lists_and_dataclasses():
    x = {"model": Model(2.0, np.ones(3)), "n": 3, "list": [1.0, np.zeros(2)]}
    tangent = rand_tangent(x, np.random.default_rng(1))
    assert tangent["n"] is None
    assert tangent["model"].name is None
    moved = shifted(x, 2.0, tangent)
    assert moved["model"].rate == 2.0 + 2.0 * tangent["model"].rate
    assert moved["model"].name == "a"
    np.testing.assert_array_equal(moved["list"][1], 2.0 * tangent["list"][1])
    np.testing.assert_array_equal(x["list"][1], 0.0)
    squares = tangent["model"].rate ** 2 + (tangent["model"].weights ** 2).sum()
    squares += tangent["list"][0] ** 2 + (tangent["list"][1] ** 2).sum()
    assert inner(tangent, tangent) == pytest.approx(squares, rel=1e-14)


def test_tangents_of_typed_lists_and_dictionaries():
    x = numba.typed.List([np.zeros(2), np.ones(2)])
    tangent = rand_tangent(x, np.random.default_rng(1))
    assert type(tangent) is type(x)
    assert all(np.all(each != 0) for each in tangent)
    np.testing.assert_array_equal(x[0], 0.0)
    of_names = numba.typed.Dict.empty(numba.int64, numba.float64)
    of_names[3] = 1.5
    assert list(rand_tangent(of_names)) == [3]
    assert rand_tangent(of_names)[3] not in (0.0, 1.5)


def test_complex_pairing_is_real():
    assert inner(1 + 2j, 3 - 1j) == pytest.approx(3 - 2)


def test_well_conditioned():
    singular = np.linalg.svd(well_conditioned(6, np.random.default_rng(3)), compute_uv=False)
    assert singular.max() <= 3.0 + 1e-12
    assert singular.min() >= 1.0 - 1e-12


@pytest.mark.parametrize(
    ("x", "tangent", "message"),
    [
        (np.ones(3), np.ones(1), r"the shape \(1,\), the argument \(3,\)"),
        (np.ones(3), 1.0, r"the shape \(\), the argument \(3,\)"),
        (np.ones(2), np.ones(2) * 1j, "an array of complex128, expected real numbers"),
        (2, 1.0, "its argument, of type int, has no derivative"),
        (np.arange(2), np.ones(2), "its argument, an array of int64, has no derivative"),
        (
            (1.0, 2),
            (1.0, 1.0),
            "entry 1 of the tangent of argument 0 is of type float; .* type int",
        ),
        ((1.0, 2.0), (1.0,), "expected a tuple of 2 entries"),
        ({"a": 1.0, "b": 2.0}, {"b": 1.0, "a": 1.0}, "expected a dict as its argument is"),
        (typed.List([1.0, 2.0]), typed.List([1.0]), "expected a List of the same type"),
        ([1.0, 2.0], "ab", "of type str, expected a list"),
        (1.0, "a", "of type str, expected numbers"),
    ],
)
def test_tangents_that_do_not_fit(x, tangent, message):
    """They are not broadcast, rounded or left out."""
    with pytest.raises(TangentMismatch, match=message):
        directional_derivative(total_of, (x,), (tangent,))


@pytest.mark.parametrize("tangents", [(), (1.0, 1.0), 1.0, None])
def test_another_number_of_tangents(tangents):
    with pytest.raises(TangentMismatch, match="one tangent per argument"):
        directional_derivative(math.exp, (1.0,), tangents)


def total_of(x):
    return 0.0


@pytest.mark.parametrize("argnum", [1, -2, None, 0.0])
def test_an_argument_that_there_is_not(argnum):
    with pytest.raises(ArityError, match=r"argnum is .*, of 1 arguments"):
        gradient_fd(math.exp, (1.0,), argnum)


def test_arguments_of_another_type_are_refused():
    with pytest.raises(TypeError, match="a number of points, not None"):
        central_fdm(None)
    with pytest.raises(TypeError, match=r"rng is a numpy\.random\.Generator"):
        rand_tangent(2.0, 3)
