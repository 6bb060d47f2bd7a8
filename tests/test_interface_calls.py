"""`autodiff`, `grad` and `value_and_grad` from Python and `@njit`, through the whole pipeline."""

import math
import pickle
import threading

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

import activerules as ar


def wave(x, frequency=2.0):
    return x * math.sin(frequency * x)


def wave_slope(x, frequency=2.0):
    return math.sin(frequency * x) + x * frequency * math.cos(frequency * x)


@njit
def energy(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    return total


@njit
def double_into(x, out):
    for i in range(x.shape[0]):
        out[i] = 2.0 * x[i]


@njit
def norm(point):
    return point[0] * point[0] + point[1] * point[1] * point[2]


@njit
def refuses_negative(x, values):
    total = 0.0
    for value in values:
        if value < 0.0:
            raise ValueError("negative")
        total += x * value
    return total


wave_gradient = ar.grad(wave)
energy_and_gradient = ar.value_and_grad(energy)


def test_a_gradient_keeps_the_signature():
    assert wave_gradient(1.5) == pytest.approx(wave_slope(1.5))
    assert wave_gradient(1.5, frequency=3.0) == pytest.approx(wave_slope(1.5, 3.0))
    assert wave_gradient.__name__ == "grad_wave"
    assert wave_gradient.__wrapped__ is wave


def test_value_and_gradient():
    value, gradient = energy_and_gradient(np.array([1.0, 2.0]))
    assert value == 5.0
    assert gradient.tolist() == [2.0, 4.0]
    assert ar.value_and_grad(wave, (0,))(1.5)[1] == pytest.approx((wave_slope(1.5),))


def test_gradients_inside_njit():
    @njit
    def newton(x):
        _value, gradient = energy_and_gradient(x)
        return x - 0.5 * gradient + wave_gradient(1.5)

    np.testing.assert_allclose(newton(np.array([1.0, 2.0])), wave_slope(1.5))


def test_autodiff_inside_njit():
    scale = np.array([1.0, 2.0])

    @njit
    def caller(x, dx):
        (_nothing,), primal = ar.autodiff(ar.Reverse.with_primal(), energy, ar.Duplicated(x, dx))
        return primal

    shadow = np.ones(2)
    assert caller(scale, shadow) == 5.0
    assert shadow.tolist() == [3.0, 5.0]


def test_a_function_that_writes_its_result():
    x, dx = np.array([1.0, 2.0]), np.ones(2)
    out, dout = np.zeros(2), np.array([1.0, 10.0])
    arguments = ar.Duplicated(x, dx), ar.Duplicated(out, dout)
    for result in ((), (ar.Const,)):
        dx[:], dout[:] = 1.0, (1.0, 10.0)
        assert ar.autodiff(ar.Reverse, double_into, *result, *arguments) == (None, None)
        assert out.tolist() == [2.0, 4.0]
        assert dx.tolist() == [3.0, 21.0]
        assert dout.tolist() == [0.0, 0.0]


def test_the_derivative_of_a_tuple_has_its_structure():
    (gradient,) = ar.autodiff(ar.Reverse, norm, ar.Active((3.0, 2.0, 5)))
    assert gradient == (6.0, 20.0, None)
    assert ar.grad(norm)((3.0, 2.0, 5)) == (6.0, 20.0, None)


def test_the_functions_own_exception_leaves_shadows_alone():
    shadow = np.ones(2)
    bad = np.array([1.0, -1.0])
    with pytest.raises(ValueError, match="negative"):
        ar.autodiff(ar.Reverse, refuses_negative, ar.Active(2.0), ar.Duplicated(bad, shadow))
    assert shadow.tolist() == [1.0, 1.0]
    (derivative, _) = ar.autodiff(ar.Reverse, refuses_negative, ar.Active(2.0), np.ones(3))
    assert derivative == 3.0


def test_what_numba_cannot_compile_is_not_compilable():
    def unknown(x):
        return undefined_name(x)  # noqa: F821

    with pytest.raises(ar.NotCompilable) as caught:
        ar.grad(unknown)(1.0)
    assert isinstance(caught.value.__cause__, TypingError)


def test_a_return_that_is_not_a_float():
    def returns_array(x):
        return 2.0 * x

    with pytest.raises(ar.NotAFloatReturn, match="jacobian"):
        ar.grad(returns_array)(np.ones(2))


def test_a_rule_registered_later_is_taken_up():
    @njit
    def inner(x):
        return 3.0 * x

    def outer(x):
        return inner(x) + x

    gradient = ar.grad(outer)
    assert gradient(1.0) == 4.0

    @ar.augmented_primal(inner)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(3.0 * x.val, None, None)

    @ar.reverse(inner)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 100.0 * dret.val

    assert gradient(1.0) == 101.0
    assert ar.autodiff(ar.Reverse, outer, ar.Active(1.0)) == (101.0,)


def test_ignored_derivatives():
    def stopped(x):
        return x * ar.ignore_derivatives(x)

    assert ar.value_and_grad(stopped)(3.0) == (9.0, 3.0)


def test_gradients_pickle():
    again = pickle.loads(pickle.dumps(wave_gradient))
    assert again(1.5) == wave_gradient(1.5)


def test_options_are_those_of_njit():
    assert ar.grad(wave, nogil=True)(1.5) == pytest.approx(wave_slope(1.5))
    with pytest.raises(TypeError, match="no option 'fastmaths'"):
        ar.grad(wave, fastmaths=True)


def test_threads_compile_and_call_at_once():
    gradient = ar.grad(lambda x: x * x * x, nogil=True)
    found = []
    threads = [threading.Thread(target=lambda: found.append(gradient(2.0))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12.0] * 4
