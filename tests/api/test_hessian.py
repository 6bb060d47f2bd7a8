"""Second and third derivatives: `hvp`, `hessian`, gradients of gradients, and mixtures of modes."""

import ctypes
import inspect
import math

import numpy as np
import pytest
from numba import njit, typed

import activerules as ar
from activerules import Duplicated, Forward, autodiff
from activerules.chainrules import NoTangent, rrule


@njit
def cubic(x):
    return x**3 * math.sin(x)


def derivatives_of_cubic(x):
    s, c = math.sin(x), math.cos(x)
    return [
        x**3 * s,
        3 * x**2 * s + x**3 * c,
        6 * x * s + 6 * x**2 * c - x**3 * s,
        6 * s + 18 * x * c - 9 * x**2 * s - x**3 * c,
    ]


@njit
def rosenbrock(x, s):
    """Allocates, and writes nothing it was given."""
    u = x * x
    d = x[1:] - u[:-1]
    return s * (d * d).sum() + ((1.0 - x[:-1]) ** 2).sum()


def hessian_of_rosenbrock(x, s):
    h = np.zeros((x.size, x.size))
    for i in range(x.size - 1):
        h[i, i] += 12 * s * x[i] ** 2 - 4 * s * x[i + 1] + 2
        h[i + 1, i + 1] += 2 * s
        h[i, i + 1] = h[i + 1, i] = -4 * s * x[i]
    return h


X = np.array([0.3, -0.8, 1.2, 0.5])
V = np.array([1.0, 0.2, -0.4, 0.7])


@njit
def eighth_powers(x):
    """Begins with a copy of as many bytes as the size of an item times that of the array; at the
    end that size is read from a struct of which a C function has seen the shape.
    """
    a = x.copy()
    for _ in range(2):
        a = a * a
    b = a.reshape(2, 2).copy()
    return (b * b).sum()


def test_hessian_of_an_array_that_is_replaced_in_a_loop():
    np.testing.assert_allclose(ar.hvp(eighth_powers, X, V), 56.0 * X**6 * V, rtol=1e-12)


def test_second_order_where_a_slope_is_given_by_a_case():
    """The sign is constant at 0, too; the slope y x^(y-1), which is 0 at y = 0, varies with y."""
    absolute = ar.hessian(lambda x: np.sum(np.abs(x) + x * x))(np.array([0.0, -0.0, -1.0]))
    np.testing.assert_array_equal(absolute, 2.0 * np.eye(3))
    signed = ar.hessian(lambda x, y: math.copysign(x, y) + x * y, (0, 1))(0.0, -2.0)
    np.testing.assert_array_equal(signed, [[0.0, 1.0], [1.0, 0.0]])
    powers = ar.hessian(lambda x, y: x**y, (0, 1))(2.0, 0.0)
    np.testing.assert_allclose(powers, [[0.0, 0.5], [0.5, math.log(2.0) ** 2]], rtol=1e-14)


@pytest.mark.parametrize("dtype", ["i1", "i8"])
def test_hvp_converts_a_vector_of_integers(dtype):
    """SciPy's trust-constr passes zeros of type int8 to `hessp`."""
    v = np.array([1, -2, 0, 3], dtype)
    np.testing.assert_allclose(ar.hvp(eighth_powers)(X, v), 56.0 * X**6 * v, rtol=1e-12)


def test_hvp_converts_a_vector_passed_by_name():
    product = ar.hvp(scaled_powers)
    x, v = np.array([1.0, -2.0, 3.0]), np.array([1, -2, 4])
    expected = product(x, v.astype(float))
    for given in v, np.repeat(v.astype(float), 2)[::2]:
        np.testing.assert_array_equal(product(x, v=given), expected)
        np.testing.assert_array_equal(product(v=given, x=x), expected)


@pytest.mark.parametrize(
    "product",
    [
        lambda: ar.hvp(eighth_powers, X),
        lambda: ar.hvp(eighth_powers, X, None),
        lambda: ar.hvp(eighth_powers)(X, None),
        lambda: njit(lambda x: ar.hvp(eighth_powers, x))(X),
    ],
)
def test_hvp_without_a_vector_is_refused(product):
    with pytest.raises(ar.ArityError, match="takes a vector, and there is none"):
        product()


by_x = ar.grad(rosenbrock)
both = ar.value_and_grad(rosenbrock, (0, 1))


@njit
def at_hundred(x):
    return rosenbrock(x, 100.0)


class TestScalars:
    def test_forward_over_forward_over_forward(self):
        @njit
        def first(x):
            return autodiff(Forward, cubic, Duplicated(x, 1.0))

        @njit
        def second(x):
            return ar.jvp(first, (x,), (1.0,))[1]

        third = autodiff(Forward, second, Duplicated(0.7, 1.0))
        assert third == pytest.approx(derivatives_of_cubic(0.7)[3])
        assert ar.grad(second)(0.7) == pytest.approx(derivatives_of_cubic(0.7)[3])

    def test_gradient_of_the_gradient(self):
        assert ar.grad(ar.grad(cubic))(0.7) == pytest.approx(derivatives_of_cubic(0.7)[2])
        assert ar.hessian(cubic)(0.7) == pytest.approx(derivatives_of_cubic(0.7)[2])

    def test_gradient_of_the_gradient_of_the_gradient(self):
        third = ar.grad(ar.grad(ar.grad(cubic)))
        assert third(0.7) == pytest.approx(derivatives_of_cubic(0.7)[3])

    def test_jacobian_of_the_gradient(self):
        assert ar.jacfwd(ar.grad(cubic))(0.7) == pytest.approx(derivatives_of_cubic(0.7)[2])


class TestArrays:
    def test_product_with_the_hessian(self):
        expected = hessian_of_rosenbrock(X, 100.0) @ V
        np.testing.assert_allclose(ar.hvp(at_hundred, X, V), expected, rtol=1e-12)

        @njit
        def inside(x, v):
            return ar.hvp(at_hundred, x, v).sum()

        assert inside(X, V) == pytest.approx(expected.sum())

    def test_hessian_with_respect_to_several_arguments(self):
        x = X.copy()
        (xx, xs), (sx, ss) = ar.hessian(rosenbrock, argnums=(0, 1))(x, 3.0)
        np.testing.assert_allclose(xx, hessian_of_rosenbrock(X, 3.0), rtol=1e-12)
        by_s = by_x(X, 4.0) - by_x(X, 3.0)  # the gradient is linear in s
        np.testing.assert_allclose(xs, by_s, rtol=1e-9)
        np.testing.assert_allclose(sx, by_s, rtol=1e-9)
        assert ss == 0.0
        np.testing.assert_array_equal(x, X)

    def test_function_of_a_gradient(self):
        @njit
        def size(x, s):
            value, (g, by_s) = both(x, s)
            return (g * g).sum() * s + value * by_s

        h, g = hessian_of_rosenbrock(X, 3.0), by_x(X, 3.0)
        value, (_, by_s) = both(X, 3.0)
        g_by_s = by_x(X, 4.0) - by_x(X, 3.0)
        found_x, found_s = ar.grad(size, (0, 1))(X, 3.0)
        np.testing.assert_allclose(found_x, 6 * h @ g + by_s * g + value * g_by_s, rtol=1e-9)
        assert found_s == pytest.approx(g @ g + 6 * g_by_s @ g + by_s * by_s)
        _, forwards = ar.jvp(size, (X, 3.0), (V, 0.5))
        assert forwards == pytest.approx(found_x @ V + 0.5 * found_s)

    def test_arrays_that_are_overwritten_afterwards(self):
        @njit
        def descend(x, rate):
            for _ in range(3):
                g = by_x(x, 1.0)
                for i in range(x.size):
                    x[i] -= rate * g[i]
            return rosenbrock(x, 1.0)

        x, shadow = X.copy(), np.zeros(4)
        (_, by_rate) = autodiff(ar.Reverse, descend, Duplicated(x, shadow), ar.Active(0.01))

        def run(rate):
            return descend.py_func(X.copy(), rate)

        expected = (run(0.01 + 1e-5) - run(0.01 - 1e-5)) / 2e-5
        assert by_rate == pytest.approx(expected, rel=1e-7)
        _, forwards = ar.jvp(descend, (X.copy(), 0.01), (V.copy(), 0.0))
        assert shadow @ V == pytest.approx(forwards, rel=1e-10)


def test_rules_are_differentiated_too():
    """The forward rule of `@` is code of its own: its products have reverse rules again."""

    @njit
    def logistic(w, data, labels):
        margins = labels * (data @ w)
        return np.log1p(np.exp(-margins)).sum()

    rng = np.random.default_rng(0)
    data, labels, w = rng.normal(size=(5, 3)), np.sign(rng.normal(size=5)), rng.normal(size=3)
    p = 1 / (1 + np.exp(-(data @ w)))
    expected = data.T @ (data * (p * (1 - p))[:, None])
    np.testing.assert_allclose(ar.hessian(logistic)(w, data, labels), expected, rtol=1e-12)


@njit
def squares_in_place(x):
    for i in range(1, x.size):
        x[i] += x[i - 1] * x[i]
    return (x * x).sum()


@njit
def twice(x, v):
    first = ar.hvp(squares_in_place, x, v)
    return first, ar.hvp(squares_in_place, x, v)


def test_a_product_leaves_its_arguments_alone():
    x, v = np.array([1.0, 2.0, 0.5])[::-1], np.array([0.3, -1.0, 2.0])[::-1]
    kept = x.copy(), v.copy()
    h = 1e-5
    ahead, behind = (ar.grad(squares_in_place)(np.array(x + s * v)) for s in (h, -h))
    for product in (ar.hvp(squares_in_place, x, v), *twice(x, v)):
        np.testing.assert_allclose(product, (ahead - behind) / (2 * h), rtol=1e-8)
    np.testing.assert_array_equal((x, v), kept)


@njit
def weighted_by_place(x):
    """Calls of functions with rules that forward mode needs no rule for: an inactive one, and a
    product of constants.
    """
    table = np.array([0.5, 1.5, 2.5])
    weights = np.dot(np.ones((2, 3)), np.ones((3, 2)))
    i = np.searchsorted(table, x[0])
    return weights[0, 1] * i * x[0] ** 3 * x[1]


def test_calls_without_forward_rules_are_differentiated_again():
    x, v = np.array([2.0, 5.0]), np.array([1.0, -1.0])
    h = 6.0 * np.array([[6 * x[0] * x[1], 3 * x[0] ** 2], [3 * x[0] ** 2, 0.0]])
    assert ar.hvp(weighted_by_place, x, v) == pytest.approx(h @ v, rel=1e-14)


@njit
def misfit(x, data, power=4.0):
    """Writes into `data`."""
    total = 0.0
    for i in range(x.size):
        data[i] = data[i] * x[i]
        total += data[i] * x[i] ** (power - 1.0)
    return total


misfit_product = ar.hvp(misfit)


@njit
def three_products(x, v, data):
    return ar.hvp(misfit, x, v, data), ar.hvp(misfit)(x, v, data), misfit_product(x, v, data, 5.0)


def test_products_of_functions_of_several_arguments():
    """One compiled function serves all data, and holds none of it."""
    x, v = np.array([1.0, 2.0, 0.5]), np.array([0.3, -1.0, 2.0])
    data = np.array([2.0, -1.0, 3.0])
    kept = data.copy()
    quartic, quintic = 12.0 * data * x**2 * v, 20.0 * data * x**3 * v
    found = [ar.hvp(misfit, x, v, data), misfit_product(x, v, data), *three_products(x, v, data)]
    np.testing.assert_allclose(found, [quartic] * 4 + [quintic], rtol=1e-13)
    np.testing.assert_allclose(misfit_product(x, v, data, power=5.0), quintic, rtol=1e-13)
    np.testing.assert_array_equal(data, kept)
    np.testing.assert_allclose(misfit_product(x, v, 2.0 * data), 2.0 * quartic, rtol=1e-13)
    assert len(misfit_product.dispatcher.signatures) == 2  # without and with `power`
    assert str(inspect.signature(misfit_product)) == "(x, v, data, power=4.0)"
    with pytest.raises(ar.ShadowMismatch, match="share memory"):
        misfit_product(x, v, x)


def test_refusals():
    with pytest.raises(ar.ActivityError, match="no Hessian with respect to it"):
        ar.hessian(rosenbrock)((1, 2), 1.0)


def softplus_sum(rules):
    """A function of an array that calls one with these rules, each of which is right."""

    @njit
    def softplus(x):
        return math.log1p(math.exp(x))

    if "pair" in rules:

        @ar.augmented_primal(softplus)
        def _(config, ret: ar.Active, x: ar.Active):
            return ar.AugmentedReturn(softplus(x.val), None, None)

        @ar.reverse(softplus)
        def _(config, dret: ar.Active, tape, x: ar.Active):
            return dret.val / (1.0 + math.exp(-x.val))

    if "forward" in rules:

        @ar.forward(softplus)
        def _(config, ret: ar.Duplicated, x: ar.Duplicated):
            return softplus(x.val), x.dval / (1.0 + math.exp(-x.val))

    @njit
    def total(x):
        s = 0.0
        for v in x:
            s += softplus(v * v)
        return s

    return total


@pytest.mark.parametrize("rules", [("pair",), ("forward",), ("pair", "forward")], ids="+".join)
def test_second_derivatives_through_hand_written_rules(rules):
    sigma = 1.0 / (1.0 + np.exp(-X * X))
    diagonal = 2.0 * sigma + 4.0 * X * X * sigma * (1.0 - sigma)
    np.testing.assert_allclose(ar.hvp(softplus_sum(rules), X, V), diagonal * V, rtol=1e-13)


address = ctypes.cast(ctypes.CDLL("libm.so.6").cos, ctypes.c_void_p).value
cosine = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)


def test_second_derivatives_of_a_pair_without_a_body():
    """Second derivatives differentiate the pair; in forward mode nothing is known of it."""

    @njit
    def opaque(x):
        return cosine(x)

    @ar.augmented_primal(cosine)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(cosine(x.val), None, None)

    @ar.reverse(cosine)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return -dret.val * math.sin(x.val)

    assert ar.grad(opaque)(0.3) == pytest.approx(-math.sin(0.3))
    assert ar.hessian(opaque)(0.3) == pytest.approx(-math.cos(0.3))
    with pytest.raises(ar.ActiverulesError, match="which has no derivative"):
        ar.jvp(opaque, (0.3,), (1.0,))


@njit
def cube_root(a):
    """To nine digits, by a body that is flat."""
    return math.floor(a ** (1.0 / 3.0) * 1e9 + 0.5) / 1e9


@rrule.register(cube_root)
def _(f, a):
    y = cube_root(a)
    return y, lambda dy: (NoTangent(), dy / (3.0 * y * y))


@njit
def rotated(z, angle):
    """As flat, of complex numbers in an array."""
    out = np.empty_like(z)
    for k in range(z.size):
        exact = z[k] * z[k] * np.exp(1j * angle)
        real, imag = math.floor(exact.real * 1e9), math.floor(exact.imag * 1e9)
        out[k] = complex(real, imag) / 1e9
    return out


@ar.augmented_primal(rotated)
def _(config, ret: ar.Duplicated, z: ar.Duplicated, angle: ar.Active | ar.Const):
    y = rotated(z.val, angle.val)
    return ar.AugmentedReturn(y, np.zeros_like(y), (z.val.copy(), y))


@ar.reverse(rotated)
def _(config, dret: ar.Duplicated, tape, z: ar.Duplicated, angle: ar.Active | ar.Const):
    x, y = tape
    ar.accumulate(z, np.conj(2.0 * x * np.exp(1j * angle.val)) * dret.dval)
    slope = np.sum(np.conj(1j * y) * dret.dval).real
    dret.dval[:] = 0.0
    return None, slope


@njit
def through_pairs(x, angle):
    z = x + 1j * x[::-1]
    turned = rotated(z, angle)
    return cube_root(x[0] * x[1]) + np.sum(turned.real * turned.imag)


def test_second_derivatives_differentiate_a_pair():
    """f = (ab)^⅓ + ½ Im((z⁴ + w⁴) e^(2iθ)) with z = a + ib and w = b + ia = i z̄, so that w⁴ is the
    conjugate of z⁴: f = (ab)^⅓ + Re(z⁴) sin 2θ.
    """
    (a, b), angle = (2.0, 3.0), 0.4
    found = ar.hessian(through_pairs, argnums=(0, 1))(np.array([a, b]), angle)
    sine, cosine = np.sin(2 * angle), np.cos(2 * angle)
    mixed = (a * b) ** (-2 / 3) / 9 - 24 * a * b * sine
    curved = 12 * (a * a - b * b) * sine
    by_x = [
        [-2 / 9 * a ** (-5 / 3) * b ** (1 / 3) + curved, mixed],
        [mixed, -2 / 9 * b ** (-5 / 3) * a ** (1 / 3) - curved],
    ]
    by_both = 2 * cosine * np.array([4 * a**3 - 12 * a * b * b, 4 * b**3 - 12 * a * a * b])
    by_angle = -4 * (a**4 - 6 * a * a * b * b + b**4) * sine
    expected = (by_x, by_both), (by_both, by_angle)
    for row, wanted in zip(found, expected, strict=True):
        for block, right in zip(row, wanted, strict=True):
            np.testing.assert_allclose(block, right, rtol=1e-7, atol=1e-7)
    slope = ar.grad(cube_root)
    assert ar.grad(lambda a: slope(a))(6.0) == pytest.approx(-2 / 9 * 6.0 ** (-5 / 3), rel=1e-7)


def test_forward_mode_alone_says_that_it_takes_the_body():
    @njit
    def flat(x):
        return math.floor(x * 1e9) / 1e9

    @rrule.register(flat)
    def _(f, x):
        return flat(x), lambda dy: (NoTangent(), dy)

    program = njit(lambda x: x * flat(x))
    with pytest.warns(ar.MissingForwardWarning, match=r"flat has .* no forward rule") as seen:
        assert ar.jvp(program, (2.0,), (1.0,))[1] == pytest.approx(2.0)
    assert len(seen) == 1
    assert ar.hvp(program, 2.0, 1.0) == pytest.approx(2.0)
    ar.opt_out(flat, mode="forward")
    assert ar.jvp(program, (2.0,), (1.0,))[1] == pytest.approx(2.0)
    assert ar.hvp(program, 2.0, 1.0) == 0.0  # as the body is said to be right
    with pytest.raises(ar.RuleDefinitionError, match="takes annotations, or mode"):
        ar.opt_out(flat, ar.Active, mode="forward")


@njit
def root(p):
    """Of p[0] p[1], by a body that is flat."""
    return math.floor(math.sqrt(p[0] * p[1]) * 1e9 + 0.5) / 1e9


@ar.augmented_primal(root)
def _(config, ret: ar.Active, p: ar.Active):
    x = root(p.val)
    return ar.AugmentedReturn(x, None, None)


@ar.reverse(root)
def _(config, dret: ar.Active, tape, p: ar.Active):
    a, b = p.val
    x = math.sqrt(a * b)
    return (b / (2.0 * x) * dret.val, a / (2.0 * x) * dret.val)  # the only derivative, alone


@njit
def fill(out, x):
    out[0] = math.floor(x * x * 1e9) / 1e9


@ar.augmented_primal(fill)
def _(config, ret: ar.Const, out: ar.Duplicated, x: ar.Active):
    fill(out.val, x.val)
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(fill)
def _(config, dret: ar.Const, tape, out: ar.Duplicated, x: ar.Active):
    cotangent = out.dval[0]
    out.dval[0] = 0.0
    return None, 2.0 * x.val * cotangent


@njit
def through_tuple_and_write(x):
    """x^1.5 x⁴"""
    out = np.zeros(1)
    fill(out, x)
    return root((x, x * x)) * out[0] ** 2


def test_a_pair_of_tuples_and_one_that_writes_are_differentiated():
    found = ar.hvp(through_tuple_and_write, 1.3, 2.0)
    assert found == pytest.approx(2.0 * 5.5 * 4.5 * 1.3**3.5, rel=1e-7)


def test_forward_of_pair_p2_a_pair_of_lists_is_refused():
    @njit
    def first(items):
        return items[0] * items[0]

    @ar.augmented_primal(first)
    def _(config, ret: ar.Active, items: ar.Duplicated):
        return ar.AugmentedReturn(first(items.val), None, items.val[0])

    @ar.reverse(first)
    def _(config, dret: ar.Active, tape, items: ar.Duplicated):
        items.dval[0] += 2.0 * tape * dret.val

    @njit
    def of_list(x):
        return first(typed.List([x]))

    with pytest.raises(ar.NotYetSupported, match="a second derivative of first") as caught:
        ar.hvp(of_list, 3.0, 1.0)
    assert "items: only numbers, arrays" in str(caught.value)
    assert 'ar.opt_out(first, mode="forward")' in str(caught.value)


@njit
def in_lists(x):
    """Lists of floats and of arrays, which grow and shrink."""
    powers, rows = [x[0] * x[0]], [x * x]
    for k in range(6):
        powers.append(powers[-1] * x[1])
        rows.append(rows[k] * powers[k])
    return powers.pop() * powers[2] + rows.pop().sum()


def test_lists_that_grow(unfreed):
    slopes, step = ar.grad(in_lists), 1e-5
    columns = [(slopes(X + step * e) - slopes(X - step * e)) / (2 * step) for e in np.eye(4)]
    second = ar.hessian(in_lists)
    np.testing.assert_allclose(second(X), np.transpose(columns), rtol=1e-7, atol=1e-8)
    assert unfreed(lambda: second(X)) == 0


def test_a_vector_with_other_strides():
    x, v = np.array([2.0, 9.0, 5.0])[::2], np.array([1.0, -1.0])
    product = ar.hvp(lambda x: x[0] ** 2 * x[1], x, v)
    np.testing.assert_allclose(product, [2 * x[1] - 2 * x[0], 2 * x[0]], rtol=1e-14)


def overwritten(x):
    x[:] = x**3
    return x.sum()


@pytest.mark.parametrize("function", [lambda x: (x**3).sum(), overwritten])
@pytest.mark.parametrize("other", [np.asfortranarray, np.flip, np.copy])
def test_a_vector_with_other_strides_in_a_compiled_function(function, other, unfreed):
    f, rows = njit(function), np.arange(1.0, 7.0).reshape(2, 3)
    product = njit(lambda x, v: ar.hvp(f, x, v))
    for x, v in ((rows, other(rows)), (other(rows), rows)):
        before = x.copy(), v.copy()
        np.testing.assert_allclose(product(x, v), 6 * x * v, rtol=1e-14)
        np.testing.assert_array_equal((x, v), before)
        assert unfreed(lambda x=x, v=v: product(x, v)) == 0
    for wrong in (rows[:, :2].copy(), rows.astype(np.float32)):
        with pytest.raises(ar.ShadowMismatch):
            product(rows, other(wrong))


@njit
def scaled_powers(x, scale=2.0, n=3):
    return (x**n).sum() * scale


def test_defaults_of_other_arguments():
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(ar.hvp(scaled_powers, x, np.ones(3)), 12.0 * x, rtol=1e-14)
    compiled = njit(lambda x: ar.hvp(scaled_powers, x, np.ones(3)))
    np.testing.assert_allclose(compiled(x), 12.0 * x, rtol=1e-14)


def test_later_calls_of_a_product_take_the_same_arguments_as_the_first():
    @njit
    def f(x, w):
        return x[0] * x[1] * x[1] * w[0]

    def expected(x, v, w):
        return 2.0 * w[0] * np.array([x[1] * v[1], x[1] * v[0] + x[0] * v[1]])

    product = ar.hvp(f)
    memory = np.array([2.0, 3.0, 5.0, 7.0])
    x, v, w = memory[:2].copy(), memory[2:].copy(), np.array([0.5])
    calls = [
        (x, v, w),
        (x, v, w),
        (x, x, w),  # one array twice
        (memory[:2], memory[1:3], w),  # memory in common
        (x, memory[1:3], memory[2:3]),
        (x, memory[::2], w),  # other strides
        (memory[::2], v, w),
        (x, v, w),
    ]
    for args in calls:
        np.testing.assert_allclose(product(*args), expected(*args), rtol=1e-15)
    np.testing.assert_allclose(product(x, v, w=w), expected(x, v, w), rtol=1e-15)
    np.testing.assert_array_equal(memory, [2.0, 3.0, 5.0, 7.0])
    for wrong, error in [
        ((x,), ar.ArityError),
        ((x, v, w, w), ar.ArityError),
        ((x, np.ones(3), w), ar.ShadowMismatch),
        ((x, 2.0, w), ar.ShadowMismatch),
        ((x, "v", w), ar.ActiverulesError),
    ]:
        with pytest.raises(error):
            product(*wrong)


@njit
def weighted_cubes(x, w, limit):
    s = 0.0
    for i in range(x.size):
        if x[i] > limit:
            raise ValueError("above")
        s += w[i] * x[i] ** 3
    return s


def test_rows_of_the_matrix_for_a_vector(unfreed):
    """The gradients are added up in them."""
    second = ar.hessian(weighted_cubes)
    x = np.linspace(0.5, 1.5, 5)
    for w in (np.ones(5), x):
        np.testing.assert_allclose(second(x, w, 9.0), np.diag(6 * w * x), rtol=1e-14)
    assert second(x[:0], x, 9.0).shape == (0, 0)

    def raises():
        with pytest.raises(ValueError, match="above"):
            second(x, x, 1.0)

    assert unfreed(raises) == unfreed(lambda: second(x, x, 9.0)) == 0


def count(x):
    return int(3.0 * x)


@pytest.mark.parametrize(
    "second", [lambda: ar.hvp(count, 2.0, 1.0), lambda: ar.hessian(count)(2.0)]
)
def test_a_result_that_is_no_float_is_named(second):
    """The derivative along the vector, of which they are gradients, returns None."""
    with pytest.raises(ar.NotAFloatReturn, match="count returns int64, not a float") as caught:
        second()
    assert caught.value.reproduce == ""  # there is no function `along` in this file


@njit
def product(*x):
    return x[0] ** 3 * x[1] ** 2


@njit
def of_items(x):
    return x[0] ** 3 * x[1] ** 2


@njit
def outer_products(x):
    return np.array([x[0] ** 2 * x[1], x[1]])


@njit
def size_of_jacobian(x):
    return (ar.jacobian(outer_products)(x) ** 2).sum()


def test_lists_and_any_number_of_arguments():
    expected = [[108.0, 72.0], [72.0, 16.0]]
    x = typed.List([2.0, 3.0])
    np.testing.assert_allclose(ar.hessian(of_items)(x), expected, rtol=1e-14)
    assert list(x) == [2.0, 3.0]
    np.testing.assert_allclose(ar.hvp(product)(2.0, 1.0, 3.0), 108.0, rtol=1e-14)
    assert [*inspect.signature(ar.hvp(product)).parameters] == ["x_", "v", "x"]
    np.testing.assert_allclose(ar.hvp(of_items)((2.0, 3.0), (1.0, 0.5)), (144.0, 80.0), rtol=1e-14)


def test_the_gradient_of_a_function_that_takes_a_jacobian():
    x, y = 1.2, 0.7  # the size is 4x²y² + x⁴ + 1
    slopes = ar.grad(size_of_jacobian)(np.array([x, y]))
    np.testing.assert_allclose(slopes, [8 * x * y**2 + 4 * x**3, 8 * x**2 * y], rtol=1e-13)
