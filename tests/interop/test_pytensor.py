"""Functions as PyTensor sees them, and a model of PyMC that is sampled by their gradients."""

import copy
import pickle

import numpy as np
import pytest
from numba import njit

import activerules as ar
from tests.interop.programs import energy, filtered, forward_runs  # noqa: F401 (a fixture)

pytensor = pytest.importorskip("pytensor")

from activerules.interop import pytensor as bridge  # noqa: E402 (after the check that it is there)

tensor = pytensor.tensor
if hasattr(pytensor.config, "numba__cache"):
    pytensor.config.numba__cache = False  # of machine code that `less_compiling` does not make


wrapped, tuple_of_three = bridge.wrap(energy), bridge.wrap(filtered)
X, A = np.linspace(0.3, 1.2, 4), 1.3
x, a = tensor.dvector("x"), tensor.dscalar("a")


def test_a_number_and_its_gradients():
    y = wrapped(x, a, 2)
    found = pytensor.function([x, a], [y, *pytensor.grad(y, [x, a])])(X, A)
    value, slopes = ar.value_and_grad(energy, (0, 1))(X, A, 2)
    np.testing.assert_allclose(found[0], value)
    np.testing.assert_allclose(found[1], slopes[0])
    np.testing.assert_allclose(found[2], slopes[1])


@pytest.mark.parametrize("wrt", [[x], [x, a]])
def test_a_value_and_its_gradient_take_one_forward_sweep(wrt, forward_runs):  # noqa: F811
    y, s, _ = tuple_of_three(x, a)
    total = (y**2).sum() + s
    compiled = pytensor.function([x, a], [total, *pytensor.grad(total, wrt)])
    found = compiled(X, A)
    before = len(forward_runs)
    np.testing.assert_equal(compiled(X, A), found)
    assert len(forward_runs) - before == 1
    ys = np.sin(X * A) * np.roll(X, 1)
    np.testing.assert_allclose(found[0], (ys**2).sum() + A * ys.sum())
    seeds = 2.0 * ys + A
    slope = seeds * A * np.cos(X * A) * np.roll(X, 1) + np.roll(seeds * np.sin(X * A), -1)
    np.testing.assert_allclose(found[1], slope)


def test_gradients_by_pytensors_own_check():
    def total(x, a):
        y, s, _ = tuple_of_three(x, a)
        return tensor.sum(y**2) + s

    pytensor.gradient.verify_grad(total, [X, np.array(A)], rng=np.random.default_rng(0))
    pytensor.gradient.verify_grad(
        lambda x: pytensor.grad(total(x, A), x), [X], rng=np.random.default_rng(0)
    )


def test_second_derivatives_in_both_modes():
    hessian = pytensor.gradient.hessian(wrapped(x, a, 2), x)
    exact = ar.hessian(energy)(X, A, 2)
    np.testing.assert_allclose(hessian.eval({x: X, a: A}), exact)
    gradient = pytensor.grad(wrapped(x, a, 2), x)
    if hasattr(pytensor.gradient, "pushforward"):
        product = pytensor.gradient.pushforward(gradient, x, x, use_op_pushforward=True)
    else:  # before PyTensor 3
        product = pytensor.gradient.Rop(gradient, x, x)
    np.testing.assert_allclose(product.eval({x: X, a: A}), exact @ X)


def test_integers_and_data_are_constant():
    whole = tensor.lvector("whole")
    y = wrapped(whole, a, 2)
    found = pytensor.grad(y, a).eval({whole: np.arange(4), a: A})
    np.testing.assert_allclose(found, ar.grad(energy, 1)(np.arange(4), A, 2))
    with pytest.raises(pytensor.gradient.DisconnectedInputError):
        pytensor.grad(y, whole)
    pull = pytensor.grad(wrapped(X, a, 2), a).owner
    assert [out.ndim for out in pull.outputs] == [0]  # nothing is computed for the data


def test_no_argument_is_changed():
    @njit
    def spoils(x):
        x *= 2.0
        return x.sum()

    y = bridge.wrap(spoils)(x)
    total = pytensor.function([x], [y, pytensor.grad(y, x), x.sum()])
    given = X.copy()
    np.testing.assert_allclose(total(given)[2], X.sum())
    np.testing.assert_array_equal(given, X)
    given.setflags(write=False)
    np.testing.assert_allclose(total(given)[0], 2.0 * X.sum())
    np.testing.assert_allclose(total(np.repeat(X, 2)[::2])[0], 2.0 * X.sum())


def test_bad_input():
    with pytest.raises(ar.ForeignArrayError, match="`x` is an array of float32"):
        wrapped(tensor.fvector("x"), a, 2)
    with pytest.raises(ar.ForeignArrayError, match="dense tensor of real numbers"):
        wrapped(tensor.zvector("z"), a, 2)
    with pytest.raises(ar.ForeignArrayError, match="dense tensor of real numbers"):
        wrapped("abc", a, 2)
    with pytest.raises(ar.ArityError):
        wrapped(x)
    with pytest.raises(ar.NotCompilable):
        bridge.wrap(pytensor.function([x], x))
    with pytest.raises(ar.NotAFloatReturn, match="returns str"):
        bridge.wrap(lambda x: "abc")(x)


def test_a_model_is_sampled_by_its_gradient():
    """A conjugate model: the posterior of the mean is known."""
    pm = pytest.importorskip("pymc")

    @njit
    def log_likelihood(mean, log_scale, y):
        s = 0.0
        for one in y:
            s -= 0.5 * ((one - mean) / np.exp(log_scale)) ** 2 + log_scale
        return s

    data = np.random.default_rng(3).normal(1.5, 1.0, 40)
    with pm.Model():
        mean = pm.Normal("mean", 0.0, 10.0)
        pm.Potential("likelihood", bridge.wrap(log_likelihood)(mean, 0.0, data))
        trace = pm.sample(
            600, tune=400, chains=2, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    draws = trace.posterior["mean"].to_numpy().ravel()
    precision = 40.0 + 0.01
    assert abs(draws.mean() - data.sum() / precision) < 0.03
    assert abs(draws.std() - precision**-0.5) < 0.03
    assert trace.sample_stats["diverging"].to_numpy().sum() == 0


def test_an_operation_is_kept_by_its_address():
    """Numba asks by pickling whether it can be written to disk; PyTensor copies operations."""
    op = wrapped(x, a, 2).owner.op
    with pytest.raises(pickle.PicklingError, match="belong to this process"):
        pickle.dumps(op)
    assert copy.copy(op) is op
    assert copy.deepcopy(op) is op
