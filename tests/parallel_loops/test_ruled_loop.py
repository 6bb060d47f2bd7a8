"""A parallel loop as a function with a rule: against closed forms."""

import math
import pickle

import numpy as np
import pytest
from numba import float64, prange
from numba.experimental import jitclass

import activerules as ar

RNG = np.random.default_rng(4)


def cubes(x, order, out):
    for i in prange(len(order)):
        out[order[i]] = x[i] ** 3
    return np.dot(out, out)


def test_entries_that_are_only_written_need_no_index_and_no_primal_values():
    x, order = RNG.normal(size=9), RNG.permutation(9)
    f = ar.parallel(cubes)
    np.testing.assert_allclose(ar.grad(f)(x, order, np.full(9, np.nan)), 6 * x**5, rtol=1e-13)
    tangent = RNG.normal(size=9)
    second = ar.hvp(f)(x, tangent, order, np.zeros(9))
    np.testing.assert_allclose(second, 30 * x**4 * tangent, rtol=1e-13)


def test_several_shadows_at_once():
    x, order = RNG.normal(size=9), RNG.permutation(9)
    found = np.zeros(9), np.ones(9)
    passed = ar.BatchDuplicated(x, found), ar.Const(order), ar.Const(np.zeros(9))
    ar.autodiff(ar.Reverse, ar.parallel(cubes), ar.Active, *passed)
    np.testing.assert_allclose(found, [6 * x**5, 1.0 + 6 * x**5], rtol=1e-13)


def roots(x):
    s = 0.0
    for i in prange(len(x)):
        if x[i] < 0.0:
            raise ValueError("a negative number")
        s += math.sqrt(x[i])
    return s


@pytest.mark.parametrize("k", [0, 5])
def test_an_error_in_any_thread_is_raised(threads, k):
    x = np.ones(6)
    x[k] = -1.0
    f = ar.parallel(roots)
    for call in (f, ar.grad(f)):
        with pytest.raises(ValueError, match="a negative number"):
            call(x)
    np.testing.assert_allclose(ar.grad(f)(np.full(6, 4.0)), 0.25)


def products(x, w):
    s, p = 0.0, 1.0
    for i in prange(len(x)):
        p *= 1.0 + 0.01 * x[i] * w[0]
        s += x[i] * w[1]
    return s * p


def test_r1_sums_have_the_same_order_in_every_run():
    x, w = RNG.normal(size=997), RNG.normal(size=2)
    gradient = ar.value_and_grad(ar.parallel(products), argnums=(0, 1))
    value, (of_x, of_w) = gradient(x, w)
    for _ in range(10):
        again, (x_again, w_again) = gradient(x, w)
        assert again == value
        np.testing.assert_array_equal(x_again, of_x)
        np.testing.assert_array_equal(w_again, of_w)
    factors = 1.0 + 0.01 * x * w[0]
    expected = factors.prod() * (w[1] + (x * w[1]).sum() * 0.01 * w[0] / factors)
    np.testing.assert_allclose(of_x, expected, rtol=1e-10)


def from_start(a, x):
    for i in prange(len(x)):
        a = a + x[i] * x[i]
    return (a * a).sum()


def test_an_array_stays_as_it_is_where_a_sum_gets_its_name():
    a, x, tangent = RNG.normal(size=3), RNG.normal(size=9), np.ones(3)
    before, total = a.copy(), a + (x * x).sum()
    f = ar.parallel(from_start)
    np.testing.assert_allclose(f(a, x), (total**2).sum(), rtol=1e-13)
    of_a, of_x = ar.grad(f, argnums=(0, 1))(a, x)
    np.testing.assert_allclose(of_a, 2 * total, rtol=1e-13)
    np.testing.assert_allclose(of_x, 4 * total.sum() * x, rtol=1e-13)
    ar.autodiff(ar.Forward, f, ar.Duplicated, ar.Duplicated(a, tangent), ar.Const(x))
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(tangent, 1.0)


def by_exponents(x, exponents, same):
    s = 0.0
    for i in prange(len(x)):
        exponents[i] = 2
        s += x[i] ** same[i]
    return s


def test_constant_arrays_that_share_written_memory_are_refused():
    """The reverse has copies of them, which do not share it."""
    f = ar.parallel(by_exponents)
    found = ar.grad(f)(np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64), np.full(3, 3))
    np.testing.assert_allclose(found, [3.0, 12.0, 27.0], rtol=1e-14)
    exponents = np.zeros(3, np.int64)
    line = by_exponents.__code__.co_firstlineno + 2
    refused = pytest.raises(ar.RuleArgumentsOverlap, match="`same` and `exponents` share memory")
    with refused as raised:
        ar.grad(f)(np.array([1.0, 2.0, 3.0]), exponents, exponents)
    assert f"test_ruled_loop.py:{line}" in str(raised.value)


def many(a, b, c, d, e, f, g, h, w, out):
    s = 0.0
    for i in prange(len(a)):
        out[i] = a[i] * b[0] + c[i] * d[1] + e[0] * f[i] + g[1] * h[i] * w
        s += out[i] ** 2
    return s


def test_a_loop_may_read_many_arrays():
    given = [*RNG.normal(size=(8, 5)), 2.0, np.zeros(5)]
    found = ar.grad(ar.parallel(many), argnums=(1, 8))(*given)
    a, b, c, d, e, f, g, h, w, _ = given
    out = a * b[0] + c * d[1] + e[0] * f + g[1] * h * w
    np.testing.assert_allclose(found[0][0], (2 * out * a).sum(), rtol=1e-12)
    np.testing.assert_allclose(found[1], (2 * out * g[1] * h).sum(), rtol=1e-12)
    shadows = [ar.Duplicated(x, np.zeros(5)) for x in (a, b, c, d, e, f, g, h)]
    passed = [*shadows, ar.Active(w), ar.Duplicated(np.zeros(5), np.zeros(5))]
    ar.autodiff(ar.Reverse, ar.parallel(many), ar.Active, *passed)
    np.testing.assert_allclose(shadows[7].dval, 2 * out * g[1] * w, rtol=1e-12)


@ar.parallel
def distances(x, k):
    s = 0.0
    for i in prange(len(x)):
        s += (x[i] - x[k]) ** 2
    return s


@ar.parallel
def clipped(s):
    for _ in prange(1):
        pass
    return s


@ar.augmented_primal(clipped)
def clipped_augmented(config, ret: ar.Active, s: ar.Active):
    return ar.AugmentedReturn(s.val, None, None)


@ar.reverse(clipped)
def clipped_reverse(config, dret: ar.Active, tape, s: ar.Active):
    return min(dret.val, 1.0)


def all_distances(x):
    s = 0.0
    for k in prange(len(x)):
        s += clipped(distances(x, k))
    return 3 * s


def test_a_loop_calls_functions_with_loops_which_have_their_rules():
    x = RNG.normal(size=7)
    found = ar.grad(ar.parallel(all_distances))(x)
    np.testing.assert_allclose(found, 4 * (7 * x - x.sum()), rtol=1e-12)


@jitclass([("rates", float64[::1])])
class Decay:
    def __init__(self, rates):
        self.rates = rates


def decayed(x, decay):
    s = 0.0
    for i in prange(len(x)):
        s += decay.rates[i] * x[i] ** 2
    return s


def test_a_product_with_the_hessian_copies_no_object_that_the_loop_only_reads():
    x, v, rates = RNG.normal(size=(3, 5))
    found = ar.hvp(ar.parallel(decayed))(x, v, Decay(rates))
    np.testing.assert_allclose(found, 2 * rates * v, rtol=1e-13)


def named_like_ours(count, tape, config):
    s = 0.0
    for chunk in prange(len(count)):
        k = tape * count[chunk]
        s += k * config
    return s


def test_variables_may_have_the_names_of_ours():
    found = ar.grad(ar.parallel(named_like_ours), argnums=(0, 1, 2))(np.arange(3.0), 2.0, 5.0)
    np.testing.assert_allclose(found[0], 10.0)
    assert found[1:] == (15.0, 6.0)


def test_the_same_function_gives_the_same_and_is_not_made_twice():
    f = ar.parallel(products)
    assert ar.parallel(products) is f
    assert ar.parallel(f) is f
    with pytest.raises(TypeError, match="belongs to this process"):
        pickle.dumps(f)


def test_nothing_is_leaked(unfreed):
    x, order = RNG.normal(size=9), RNG.permutation(9)
    gradient, of_products = ar.grad(ar.parallel(cubes)), ar.grad(ar.parallel(products))

    def run():
        gradient(x, order, np.zeros(9))
        of_products(np.ones(6), np.ones(2))

    assert unfreed(run) == 0
