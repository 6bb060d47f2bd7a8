"""`jvp` and `jacfwd`: shapes, kinds of arguments and results, inside `@njit`, and refusals."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def field(x, s):
    """By x: diagonal, with one entry off it; and a float."""
    y = np.sin(x) * s
    y[0] += x[-1] * x[-1]
    return y, (x * x).sum()


@njit
def product(x, y):
    return x * y


@njit
def in_place(x, scale):
    x[0] *= scale[1]
    return x.sum() * x[0]


def jacobian_of_field(x, s):
    by_x = np.diag(np.cos(x) * s)
    by_x[0, -1] += 2 * x[-1]
    return by_x, 2 * x


class TestJvp:
    def test_of_floats(self):
        out, tangent = ar.jvp(lambda x, y: x * math.exp(y), (3.0, 0.5), (1.0, 2.0))
        assert (out, tangent) == pytest.approx((3 * math.exp(0.5), 7 * math.exp(0.5)))

    def test_none_and_integers_are_constant(self):
        power = njit(lambda x, n, y: x**n * y)
        assert ar.jvp(power, (3.0, 2, 2.0), (1.0, 0, None)) == (18.0, 12.0)

    @pytest.mark.parametrize("tangent", [1, 0.5, True, 1j])
    def test_a_tangent_of_an_integer_is_not_lost(self, tangent):
        with pytest.raises(ar.ActivityError, match="`y` is int64, and its tangent is not zero"):
            ar.jvp(product, (3.0, 2), (1.0, tangent))
        assert ar.jvp(product, (3.0, 2), (1.0, 0 * tangent)) == (6.0, 2.0)

    @pytest.mark.parametrize("lost", [1, 0.5, True, 1j])
    def test_a_tangent_of_an_integer_in_a_tuple_is_not_lost(self, lost):
        x, items = (3, 2.0, np.arange(3)), np.arange(3)
        scaled = njit(lambda x: x[0] * x[1] * x[2].sum())
        for kept in 0, 3, 0.0, 3.0, None:
            assert ar.jvp(scaled, (x,), ((kept, 0.5, None),)) == (18.0, 4.5)
        assert ar.autodiff(ar.Forward, scaled, ar.Duplicated(x, ar.make_zero(x))) == 0.0
        with pytest.raises(ar.ActivityError, match="`x` has an item of type int64, and its tan"):
            ar.jvp(scaled, (x,), ((lost, 0.5, items),))
        with pytest.raises(ar.ActivityError, match="`x` has an item of type int64, and its tan"):
            ar.autodiff(ar.Forward, scaled, ar.Duplicated(x, (lost, 0.5, items)))
        with pytest.raises(ar.ShadowMismatch, match=r"the tangent of `x\[2\]` is float64"):
            ar.jvp(scaled, (x,), ((0, 0.5, np.ones(3)),))

    def test_tangents_of_integers_in_tuples_in_a_derivative(self):
        scaled = njit(lambda x: x[0] * x[1] ** 3)

        @njit
        def slope(y, n):
            return ar.jvp(scaled, ((2, y),), ((n, 1.0),))[1] + ar.hvp(scaled, (n, y), (0, 1.0))[1]

        assert ar.value_and_grad(slope)(3.0, 2) == pytest.approx((6 * 9 + 12 * 3, 12 * 3 + 12))
        with pytest.raises(ar.ActivityError, match="its tangent is not zero"):
            ar.grad(slope)(3.0, 1)

    def test_of_arrays_inside_njit(self):
        @njit
        def both(x, v):
            return ar.jvp(field, (x, 2.0), (v, 0.5))

        x, v = np.linspace(0.1, 1.0, 5), np.arange(5.0)
        (_, _), (dy, dsum) = both(x, v)
        by_x, total = jacobian_of_field(x, 2.0)
        np.testing.assert_allclose(dy, by_x @ v + 0.5 * np.sin(x))
        assert dsum == pytest.approx(total @ v)

    def test_tangents_with_other_strides_are_written_as_the_others(self):
        x, columns = np.array([0.5, 2.0]), np.array([[1.0, 4.0], [-2.0, 3.0]])
        scale = np.array([3.0, 9.0, 2.0])[::2]
        directions = columns.copy()
        out, tangent = ar.jvp(in_place, (x, scale), (directions[:, 0], directions[:, 1].copy()))
        (dx, ds), changed = columns.T, 0.5 * 2.0 + 2.0
        slope = dx[0] * 2.0 + 0.5 * ds[1]  # of x[0], which is 1 then
        assert (out, tangent) == pytest.approx((changed, slope * changed + slope + dx[1]))
        np.testing.assert_allclose(directions, [[slope, 4.0], [-2.0, 3.0]])
        for tangents in ((directions[:, 0], directions[:, 0]), (directions[:, 0], directions[0])):
            with pytest.raises(ar.ShadowMismatch, match=r"different strides|overlap"):
                ar.jvp(in_place, (x, scale), tangents)

    def test_a_tangent_of_a_gradient_may_be_its_primal(self):
        """The gradient, a call with rules, compares memory; it does not write into arguments."""
        A, b = np.array([[3.0, 1.0]]), np.array([0.5, 2.0])
        gradient = ar.grad(lambda A, b: np.dot(b, b) * A[0, 0], argnums=(0, 1))
        _, (of_A, of_b) = ar.jvp(gradient, (A, b), (A, b))
        np.testing.assert_allclose(of_A, [[2 * b @ b, 0.0]], rtol=1e-14)
        np.testing.assert_allclose(of_b, 4 * A[0, 0] * b, rtol=1e-14)

    def test_refusals(self):
        with pytest.raises(ar.ActivityError, match="are tuples"):
            ar.jvp(field, np.ones(3), np.ones(3))
        with pytest.raises(ar.ArityError, match="2 primals and 1 tangents"):
            ar.jvp(field, (np.ones(3), 1.0), (np.ones(3),))
        with pytest.raises(ar.ShadowMismatch, match="the tangent of `x`"):
            ar.jvp(field, (np.ones(3), 1.0), (1.0, 1.0))


class TestJacfwd:
    @pytest.mark.parametrize("n", [0, 1, 4, 6])
    def test_array_to_array_and_float(self, n):
        x = np.linspace(0.1, 1.0, n + 1)[: n or 1]
        by_x, total = ar.jacfwd(field)(x, 1.5)
        for found, expected in zip((by_x, total), jacobian_of_field(x, 1.5), strict=True):
            np.testing.assert_allclose(found, expected)

    def test_shapes(self):
        outer = ar.jacfwd(njit(lambda a, b: a * b.sum()), (0, 1))
        a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 1))
        by_a, by_b = outer(a, b)
        assert by_a.shape == (2, 3, 2, 3)
        assert by_b.shape == (2, 3, 3, 1)
        np.testing.assert_allclose(by_a.reshape(6, 6), 3 * np.eye(6))
        np.testing.assert_allclose(by_b[..., 0], np.repeat(a[..., None], 3, axis=2))

    def test_floats_and_tuples(self):
        assert ar.jacfwd(lambda x: x**3)(2.0) == 12.0
        f = njit(lambda p, x: p[0] * x + p[1])
        assert ar.jacfwd(f, argnums=(0, 1))((2.0, 3.0), 5.0) == ((5.0, 1.0), 2.0)

    def test_empty_array(self):
        assert ar.jacfwd(njit(lambda x: 2 * x))(np.empty(0)).shape == (0, 0)

    def test_arrays_the_function_writes_are_copied(self):
        x, scale = np.arange(1.0, 7.0), (3.0, 2.0)
        by_x, by_scale = ar.jacfwd(in_place, argnums=(0, 1))(x, scale)
        y0, total = 2 * x[0], x.sum() + x[0]
        expected = np.full(6, y0)
        expected[0] = 2 * (y0 + total)
        np.testing.assert_allclose(by_x, expected)
        assert by_scale == pytest.approx((0.0, x[0] * (y0 + total)))
        np.testing.assert_array_equal(x, np.arange(1.0, 7.0))

    def test_inside_njit(self):
        jacobian = ar.jacfwd(field)

        @njit
        def trace(x):
            by_x, _ = jacobian(x, 2.0)
            return np.trace(by_x)

        x = np.linspace(0.1, 1.0, 5)
        assert trace(x) == pytest.approx(np.trace(jacobian_of_field(x, 2.0)[0]))

    def test_refusals(self):
        with pytest.raises(ar.ActivityError, match="no Jacobian with respect to it"):
            ar.jacfwd(field)(np.arange(3), 1.0)
        with pytest.raises(ar.ArityError):
            ar.jacfwd(field, argnums=2)


@njit
def holomorphic(z, w):
    return np.exp(z) * z[0] * w


@pytest.mark.parametrize("make", [ar.jacfwd, ar.jacrev])
def test_jacobians_of_holomorphic_functions(make):
    z, w = np.array([1 + 2j, 0.5 - 1j, 0.3j, -1 + 0j, 0.1 + 0j]), 0.7 + 0.2j
    by_z, by_w = make(holomorphic, (0, 1), holomorphic=True)(z, w)
    expected = np.diag(np.exp(z) * z[0] * w)
    expected[:, 0] += np.exp(z) * w
    np.testing.assert_allclose(by_z, expected, rtol=1e-13)
    np.testing.assert_allclose(by_w, np.exp(z) * z[0], rtol=1e-13)
    with pytest.raises(ar.ActivityError, match="`z` is float64"):
        make(lambda z: z * z, holomorphic=True)(1.0)
    with pytest.raises(ar.ActivityError, match="returns float64"):
        make(lambda z: z.real, holomorphic=True)(w)


class Point(NamedTuple):
    x: float
    y: float


class Swapped(NamedTuple):
    y: float
    x: float


@pytest.mark.parametrize(
    ("primal", "tangent"),
    [
        (Point(2.0, 3.0), Swapped(1.0, 0.0)),
        ({"x": 2.0, "y": 3.0}, {"x": 1.0, "z": 0.0}),
        ((1, {"x": 2.0}), (0, {"y": 1.0})),
        ({"y": 2.0, "x": 3.0}, (1.0, 0.0)),
    ],
)
def test_a_tangent_has_the_names_of_its_primal(primal, tangent):
    with pytest.raises(ar.ShadowMismatch, match=r"\(.*\), and `p"):
        ar.jvp(lambda p: 1.0, (primal,), (tangent,))


def test_a_cotangent_has_the_names_of_its_result():
    _, pullback = ar.vjp(lambda x: Point(x, 2.0 * x), 1.0)
    assert pullback(Point(1.0, 0.0)) == (1.0,)
    with pytest.raises(ar.ActivityError, match="cotangent of a result of type Point is Swapped"):
        pullback(Swapped(1.0, 0.0))
