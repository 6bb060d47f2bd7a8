"""Rules inside the kernels of `@vectorize`, `@guvectorize` and `@stencil`, and rules for numbers of
functions that are applied to arrays. The rules here are wrong by purpose: that tells who served.
"""

import numpy as np
import pytest
from numba import float64, guvectorize, njit, stencil, vectorize

import activerules as ar

Active, Duplicated = ar.Active, ar.Duplicated


@njit
def squared(x):
    return x * x


@ar.augmented_primal(squared)
def _(config, ret: Active, x: Active):
    return ar.AugmentedReturn(squared(x.val), None, None)


@ar.reverse(squared)
def _(config, dret: Active, tape, x: Active):
    return 100.0 * dret.val


@guvectorize([(float64[:], float64[:])], "(n)->(n)")
def declared(x, out):
    for i in range(len(x)):
        out[i] = squared(x[i])


@guvectorize("(n)->()")
def at_the_call(x, out):
    out[0] = squared(x[0]) + x[1]


@vectorize([float64(float64)])
def of_doubles(x):
    return squared(x)


@vectorize
def folded(x, y):
    return squared(x) + y


@stencil
def neighbours(x):
    return squared(x[0]) + x[1]


@njit
def through_kernels(x):
    out, ends = np.zeros_like(x), np.zeros(len(x))
    declared(x, out)
    at_the_call(x, ends)
    return out.sum() + ends.sum() + of_doubles(x).sum() + neighbours(x[0]).sum()


def test_ufuncs_u1_rules_fire_in_kernels():
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    in_the_stencil = np.array([[100.0, 101.0, 1.0], [0.0, 0.0, 0.0]])
    wanted = 100.0 + np.array([100.0, 1.0, 0.0]) + 100.0 + in_the_stencil
    np.testing.assert_allclose(ar.grad(through_kernels)(x), wanted)


@njit
def in_single_precision(x):
    return of_doubles(x).sum()


def test_ufuncs_u1_a_kernel_keeps_its_declared_types():
    x = np.array([0.1, 0.3], np.float32)
    value, gradient = ar.value_and_grad(in_single_precision)(x)
    assert value == in_single_precision(x)  # summed in double precision
    np.testing.assert_allclose(gradient, [100.0, 100.0])


@njit
def reduced(x):
    return folded.reduce(x)


@pytest.mark.filterwarnings("ignore:ufunc.reduce")
def test_reduce_of_a_kernel():
    np.testing.assert_allclose(ar.grad(reduced)(np.array([0.0, 1.0, 2.0])), [1e4, 100.0, 1.0])


@vectorize
def product(x, y):
    return x * y


@ar.augmented_primal(product)
def _(config, ret: Active, x: Active | ar.Const, y: Active | ar.Const):
    return ar.AugmentedReturn(product(x.val, y.val), None, None)


@ar.reverse(product)
def _(config, dret: Active, tape, x: Active | ar.Const, y: Active | ar.Const):
    return 10.0 * dret.val * y.val, 10.0 * dret.val * x.val


@njit
def of_arrays(x, k):
    out = np.zeros_like(x)
    product(x, k, out)
    return out.sum() + (product(x, x[::-1]) + 1.0).sum() + product(x[0], k)


def test_a_rule_for_numbers_serves_each_element():
    x = np.array([1.0, 2.0, 4.0])
    wanted = 10.0 * (3.0 + 2.0 * x[::-1] + np.array([3.0, 0.0, 0.0]))
    np.testing.assert_allclose(ar.grad(of_arrays)(x, 3.0), wanted)
    np.testing.assert_allclose(ar.grad(of_arrays, argnums=1)(x, 3.0), 10.0 * (x.sum() + x[0]))
    calls = ar.explain(of_arrays, Duplicated(x, np.zeros(3)), ar.Const(3.0)).rules
    assert all(call.rule is not None and call.location.line > 90 for call in calls)


@njit
def roots(x):
    return np.cbrt(x).sum()


@pytest.mark.usefixtures("rules_of_this_test")
def test_a_rule_of_a_function_of_numpy_serves_each_element():
    @ar.augmented_primal(np.cbrt, replace=True)
    def _(config, ret: Active, x: Active[float64]):
        return ar.AugmentedReturn(np.cbrt(x.val), None, None)

    @ar.reverse(np.cbrt, replace=True)
    def _(config, dret: Active, tape, x: Active[float64]):
        return 100.0 * dret.val

    @ar.forward(np.cbrt, replace=True)
    def _(config, ret: Duplicated, x: Duplicated[float64]):
        return np.cbrt(x.val), 100.0 * x.dval

    x = np.array([1.0, 8.0])
    np.testing.assert_allclose(ar.grad(roots)(x), [100.0, 100.0])
    assert ar.jvp(roots, (x,), (np.array([1.0, 2.0]),))[1] == 300.0
    # Of other types than the rule is for the body is differentiated.
    single = np.array([1.0, 8.0], np.float32)
    np.testing.assert_allclose(ar.grad(roots)(single), [1 / 3, 1 / 12], rtol=1e-6)
