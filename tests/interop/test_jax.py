"""Functions as JAX sees them, against the same functions written in JAX."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.interop.tapes import MOST, TAPES
from tests.interop.programs import energy, filtered, forward_runs  # noqa: F401 (a fixture)

jax = pytest.importorskip("jax")

from activerules.interop import jax as bridge  # noqa: E402 (after the check that it is there)

numpy = jax.numpy


@pytest.fixture(autouse=True, scope="module")
def _double():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def in_jax(x, a, n):
    return numpy.sum(numpy.sin(x[:-1] * a) * x[1:] ** n)


def filtered_in_jax(x, a):
    y = numpy.sin(x * a) * numpy.roll(x, 1)
    return y, y.sum() * a, x.size


wrapped = bridge.wrap(energy)
tuple_of_three = bridge.wrap(filtered, shape=lambda x, a: (x, (), ()))
X, A = np.linspace(0.3, 1.2, 4), 1.3
ROWS = np.stack([X, 2.0 * X])


def assert_same(found, expected):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10), found, expected)


def along(function):
    return lambda x, a, n: jax.jvp(lambda x, a: function(x, a, n), (x, a), (2.0 * x, 0.3))


@pytest.mark.parametrize(
    ("transform", "args"),
    [
        (lambda f: f, (X, A, 2)),
        (lambda f: jax.jit(jax.value_and_grad(f, (0, 1))), (X, A, 2)),
        (along, (X, A, 2)),
        (lambda f: jax.jit(jax.hessian(f, (0, 1))), (X, A, 2)),
        (lambda f: jax.jacrev(jax.jacrev(f, (0, 1)), (0, 1)), (X, A, 2)),
        (lambda f: jax.vmap(f, (0, None, None)), (ROWS, A, 2)),
        (lambda f: jax.jit(jax.vmap(jax.grad(f, (0, 1)), (1, None, None))), (ROWS.T, A, 2)),
        (lambda f: jax.vmap(jax.vmap(f, (0, None, None)), (None, 0, None)), (ROWS, ROWS[:, 0], 2)),
        (
            lambda f: jax.grad(lambda x, a, n: jax.vmap(f, (0, None, None))(x, a, n).sum(), (0, 1)),
            (ROWS, A, 2),
        ),
    ],
)
def test_transformations(transform, args):
    assert_same(transform(wrapped)(*args), transform(in_jax)(*args))


@pytest.mark.parametrize("transform", [jax.jacfwd, jax.jacrev])
def test_several_results(transform):
    assert_same(tuple_of_three(X, A), filtered_in_jax(X, A))
    found = transform(lambda x, a: tuple_of_three(x, a)[:2], (0, 1))
    assert_same(found(X, A), transform(lambda x, a: filtered_in_jax(x, a)[:2], (0, 1))(X, A))


def test_in_a_loop_of_jax():
    def looped(function):
        def step(c, b):
            return function(X, c, 2) * b, c

        return jax.grad(lambda a: jax.lax.scan(step, a, numpy.arange(1.0, 4.0))[0])

    assert_same(looped(wrapped)(A), looped(in_jax)(A))


def loss_of_results(x, a):
    y, s, _ = tuple_of_three(x, a)
    return numpy.sum(y**2) + s


def of_rows(x, a):
    return jax.vmap(wrapped, (0, None, None))(x, a, 2).sum()


@pytest.mark.parametrize(
    ("derivative", "args", "runs"),
    [
        (jax.value_and_grad(wrapped), (X, A, 2), 1),
        (jax.jit(jax.value_and_grad(wrapped, (0, 1))), (X, A, 2), 1),
        (jax.jit(jax.value_and_grad(loss_of_results)), (X, A), 1),
        (jax.grad(jax.jit(loss_of_results)), (X, A), 1),
        (jax.jacrev(lambda x, a: tuple_of_three(x, a)[0]), (X, A), 1),
        (jax.jit(jax.grad(of_rows, (0, 1))), (ROWS, A), 2),
        (jax.vmap(jax.grad(wrapped), (0, None, None)), (ROWS, A, 2), 2),
        (jax.grad(jax.checkpoint(loss_of_results)), (X, A), 3),  # JAX asks for no tape here
    ],
)
def test_the_reverse_sweep_goes_on_from_the_forward_sweep(derivative, args, runs, forward_runs):  # noqa: F811
    jax.block_until_ready(derivative(*args))
    before = len(forward_runs)
    TAPES._kept.clear()  # those that nobody asked for
    jax.block_until_ready(derivative(*args))
    assert len(forward_runs) - before == runs
    assert not TAPES._kept


def test_a_pullback_that_finds_no_tape_runs_the_function_again(forward_runs):  # noqa: F811
    pulls = [jax.vjp(wrapped, X * k, A, 2)[1] for k in range(MOST + 1)]
    assert len(TAPES._kept) == MOST
    for k in (0, 5, 5):  # the oldest has gone, the other one is taken once
        exact = jax.vjp(lambda x: in_jax(x, A, 2), X * k)[1](1.0)
        assert_same(pulls[k](1.0)[:1], exact)
    assert len(forward_runs) == MOST + 1 + 2
    TAPES._kept.clear()


def test_complex_numbers_in_the_convention_of_jax():
    def overlap(z, r):
        return (z * z.conj() * r).sum() * z[0]

    def imaginary(function):
        return lambda z, r: (function(z, r) * (2.0 - 1.0j)).imag

    z, r = np.array([1.0 + 2.0j, 0.3 - 0.2j, 1.0j]), np.array([1.0, 2.0, 0.5])
    compiled = imaginary(bridge.wrap(njit(overlap)))
    assert_same(jax.grad(compiled, (0, 1))(z, r), jax.grad(imaginary(overlap), (0, 1))(z, r))
    forward = jax.jvp(lambda z: jax.grad(compiled)(z, r), (z,), (z,))
    assert_same(forward, jax.jvp(lambda z: jax.grad(imaginary(overlap))(z, r), (z,), (z,)))


def test_large_arrays_do_not_block():
    x = numpy.linspace(0.0, 1.0, 1_000_000)
    found = jax.jit(lambda x: jax.grad(wrapped)(x * 2.0, A, 2) + 1.0)(x)
    assert_same(found[:3], jax.grad(in_jax)(x * 2.0, A, 2)[:3] + 1.0)


def test_no_array_is_changed():
    @njit
    def spoils(x):
        x *= 2.0
        return x.sum()

    x = numpy.ones(3)
    assert_same(jax.grad(bridge.wrap(spoils))(x), 2.0 * np.ones(3))
    assert x.tolist() == [1.0] * 3
    strided = np.repeat(X, 2)[::2]
    strided.setflags(write=False)
    assert_same(wrapped(strided, A, 2), wrapped(X, A, 2))


def test_single_precision_is_refused():
    with pytest.raises(ar.ForeignArrayError, match="`x` is an array of float32"):
        wrapped(X.astype(np.float32), A, 2)
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(ar.ForeignArrayError, match="jax_enable_x64"):
            wrapped(X, A, 2)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_integers_are_constant():
    whole = np.arange(4)
    slope = jax.grad(wrapped, 1)(whole, A, 2)
    assert_same(slope, jax.grad(in_jax, 1)(whole, A, 2))
    with pytest.raises(TypeError, match="grad requires real"):
        jax.grad(wrapped)(whole, A, 2)


def test_shapes_have_to_be_announced_and_right():
    with pytest.raises(ar.ShadowMismatch, match="numbers of dimensions are 1, 0, 0"):
        bridge.wrap(filtered)(X, A)
    for shape in ("abc", 1.5, ((-3,), (), ()), (((3,), 2), (), ())):
        with pytest.raises(ar.ShadowMismatch, match="a shape is a tuple of lengths"):
            bridge.wrap(filtered, shape)(X, A)
    wrong = bridge.wrap(filtered, ((3,), (), ()))
    with pytest.raises(ar.ShadowMismatch, match=r"shapes \(\(4,\), \(\), \(\)\)"):
        wrong(X, A)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ShadowMismatch"):
        jax.block_until_ready(jax.jit(wrong)(X, A))


def test_other_bad_input():
    with pytest.raises(ar.ArityError):
        wrapped(X)
    with pytest.raises(ar.NotCompilable):
        bridge.wrap(jax.jit(in_jax))
    with pytest.raises(ar.ForeignArrayError, match="`x` is an object of type str"):
        wrapped("abc", A, 2)
    with pytest.raises(ar.NotAFloatReturn, match="returns str"):
        bridge.wrap(lambda x: "abc")(X)
    assert_same(wrapped(X, n=2, a=A), wrapped(X, A, 2))
