"""`has_aux=True`: the derivative of the value, and what else the function returns."""

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def energy(p, x):
    """p² |x|², and values whose own derivatives are infinite."""
    y = p * x
    return np.sum(y * y), (np.sqrt(y - y[0]), y[0], x.size)


P, X = 3.0, np.array([1.0, 2.0])
GRADIENT = 2.0 * P * (X @ X), 2.0 * P**2 * X


def require_aux(aux):
    np.testing.assert_allclose(aux[0], np.sqrt([0.0, 3.0]), rtol=1e-14)
    assert aux[1:] == (3.0, 2)


def test_gradients():
    by_p, aux = ar.grad(energy, has_aux=True)(P, X)
    assert by_p == pytest.approx(GRADIENT[0], rel=1e-14)
    require_aux(aux)
    (value, aux), gradient = ar.value_and_grad(energy, (0, "x"), has_aux=True)(P, X)
    assert (value, gradient[0]) == pytest.approx((P**2 * (X @ X), GRADIENT[0]), rel=1e-14)
    np.testing.assert_allclose(gradient[1], GRADIENT[1], rtol=1e-14)
    require_aux(aux)


def test_directions_and_pullbacks():
    value, pullback, aux = ar.vjp(energy, P, X, has_aux=True)
    by_p, by_x = pullback(2.0)
    assert (value, by_p) == pytest.approx((P**2 * (X @ X), 2.0 * GRADIENT[0]), rel=1e-14)
    np.testing.assert_allclose(by_x, 2.0 * GRADIENT[1], rtol=1e-14)
    require_aux(aux)
    value, tangent, aux = ar.jvp(energy, (P, X), (1.0, None), has_aux=True)
    assert (value, tangent) == pytest.approx((P**2 * (X @ X), GRADIENT[0]), rel=1e-14)
    require_aux(aux)


@njit
def doubled(x):
    """Writes into `x`."""
    x *= 2.0
    return x * x, x[0]


@pytest.mark.parametrize("make", [ar.jacobian, ar.jacfwd, ar.jacrev])
def test_jacobians(make):
    x = X.copy()
    derivative = make(doubled, has_aux=True)
    assert repr(derivative) == f"{make.__name__}(doubled, has_aux=True) with respect to argument 0"
    found, aux = derivative(x)
    np.testing.assert_allclose(found, np.diag(8.0 * X), rtol=1e-14)
    assert aux == 2.0
    np.testing.assert_array_equal(x, X)


def test_hessians():
    found, aux = ar.hessian(lambda x: ((x**3).sum(), x), has_aux=True)(X)
    np.testing.assert_allclose(found, np.diag(6.0 * X), rtol=1e-14)
    np.testing.assert_array_equal(aux, X)


with_sum = ar.grad(energy, has_aux=True)


@njit
def nested(p, x):
    slope, aux = with_sum(p, x)
    return slope * aux[1]


def test_inside_what_is_differentiated():
    """There aux depends on the arguments as the gradient does."""
    assert nested(P, X) == pytest.approx(GRADIENT[0] * P * X[0], rel=1e-14)
    assert ar.grad(nested)(P, X) == pytest.approx(4.0 * P * (X @ X) * X[0], rel=1e-14)


TABLE = np.array([4, 5])


def test_aux_may_be_a_text_or_a_constant_array():
    """They are constants of the program, which have no shadow."""

    @njit
    def described(x):
        return x * x, ("small" if x < 1.0 else "large", TABLE, (x, "end"))

    found, (text, table, inner) = ar.grad(described, has_aux=True)(3.0)
    assert (found, text, inner) == (6.0, "large", (3.0, "end"))
    np.testing.assert_array_equal(table, TABLE)
    value, pullback, aux = ar.vjp(described, 0.5, has_aux=True)
    assert (value, pullback(2.0), aux[0]) == (0.25, (2.0,), "small")
    assert ar.jvp(described, (0.5,), (3.0,), has_aux=True)[:2] == (0.25, 3.0)


def test_refusals():
    with pytest.raises(ar.NotAFloatReturn, match="has_aux=True"):
        ar.grad(lambda x: (x, x))(1.0)
    with pytest.raises(ar.ActivityError, match=r"returns \(value, aux\), not float64"):
        ar.grad(lambda x: x * x, has_aux=True)(1.0)
    with pytest.raises(ar.NotAFloatReturn, match="first entry of the result"):
        ar.grad(lambda x: (x, x), has_aux=True)(X)


@pytest.mark.parametrize("make", [ar.jacobian, ar.jacfwd, ar.jacrev, ar.hessian])
def test_it_adds_no_option(make):
    with pytest.raises(TypeError, match="no option 'of'"):
        make(lambda x: (x, x), has_aux=True, of=float)
