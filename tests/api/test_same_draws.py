"""Derivatives that run a function several times belong to the numbers that its first run draws."""

import random

import numba
import numpy as np
import pytest

import activerules as ar

X = np.array([0.3, -0.8, 1.1, 0.6, -0.2])
W = np.array([1.0, -2.0, 0.5, 3.0, -1.5])
W.setflags(write=False)


@numba.njit
def drawn(x):
    """Σ u x³ + n x y, where y is the next item, u a uniform and n a normal draw."""
    total = 0.0
    for i in range(x.size):
        following = x[(i + 1) % x.size]
        total += random.random() * x[i] ** 3 + np.random.normal() * x[i] * following
    return total


@numba.njit
def drawn_with_aux(x):
    value = drawn(x)
    return value, 2.0 * value


@numba.njit
def drawn_items(x):
    """u x²: its Jacobian is diagonal."""
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = random.random() * x[i] ** 2
    return out


@numba.njit
def seed(number):
    random.seed(number)
    np.random.seed(number)


@numba.njit
def numbers(count):
    """The draws of `drawn`."""
    u, n = np.empty(count), np.empty(count)
    for i in range(count):
        u[i], n[i] = random.random(), np.random.normal()
    return u, n


@numba.njit
def next_numbers():
    return random.random(), np.random.random()


@numba.njit
def draw():
    return random.random()


@pytest.fixture
def u_and_n():
    """The first draws, and those after them; the states are at the first."""
    seed(7)
    result = (*numbers(X.size), next_numbers())
    seed(7)
    return result


def gradient_and_hessian(x, u, n):
    coupled = np.diag(n) @ np.roll(np.eye(x.size), 1, axis=1)
    coupled += coupled.T
    return 3.0 * u * x**2 + coupled @ x, np.diag(6.0 * u * x) + coupled


@numba.njit
def slope(x):
    return np.dot(ar.grad(drawn)(x), W)


@numba.njit
def slope_with_aux(x):
    gradient, aux = ar.grad(drawn_with_aux, has_aux=True)(x)
    return np.dot(gradient, W) + 0.0 * aux


@numba.njit
def slope_by_pullback(x):
    return np.dot(ar.vjp(drawn, x)[1](1.0)[0], W)


@numba.njit
def slope_by_lanes(x):
    mode = ar.Reverse
    first, second = np.zeros_like(x), np.zeros_like(x)
    ar.autodiff(mode, drawn, ar.Active, ar.BatchDuplicated(x, (first, second)))
    return np.dot(first, W) + np.dot(second, W)


augmented, pulled = ar.autodiff_thunk(ar.ReverseSplitWithPrimal, drawn, ar.Active, ar.Duplicated)


@numba.njit
def slope_by_thunk(x):
    shadow = np.zeros_like(x)
    tape, _, _ = augmented(ar.Duplicated(x, shadow))
    pulled(ar.Duplicated(x, shadow), 1.0, tape)
    return np.dot(shadow, W)


@pytest.mark.parametrize("function", [slope, slope_with_aux, slope_by_pullback])
def test_a_gradient_that_is_differentiated(u_and_n, function):
    u, n, following = u_and_n
    found = ar.grad(function)(X)
    assert next_numbers() == following
    np.testing.assert_allclose(found, gradient_and_hessian(X, u, n)[1] @ W, rtol=1e-12)


def test_derivatives_of_third_order():
    """Each order runs the one below again."""
    cubed = numba.njit(lambda x: draw() * x**3)
    third = ar.grad(ar.grad(ar.grad(cubed)))
    third(0.7)
    seed(3)
    u, following = draw(), draw()
    seed(3)
    assert third(0.7) == pytest.approx(6.0 * u)
    assert draw() == following


def test_lanes_of_a_batch_that_is_differentiated(u_and_n):
    u, n, _ = u_and_n
    found = ar.grad(slope_by_lanes)(X)
    np.testing.assert_allclose(found, 2.0 * gradient_and_hessian(X, u, n)[1] @ W, rtol=1e-12)


def test_a_thunk_that_is_differentiated(u_and_n):
    u, n, _ = u_and_n
    found = ar.grad(slope_by_thunk)(X)
    np.testing.assert_allclose(found, gradient_and_hessian(X, u, n)[1] @ W, rtol=1e-12)


@pytest.mark.parametrize(
    "derivative",
    [
        ar.hessian(drawn),
        ar.hessian(drawn, sparsity=np.ones((5, 5))),
        ar.jacfwd(ar.grad(drawn)),
        ar.jacrev(ar.grad(drawn)),
    ],
    ids=["hessian", "sparse", "jacfwd", "jacrev"],
)
def test_a_hessian(u_and_n, derivative):
    u, n, following = u_and_n
    found = derivative(X)
    assert next_numbers() == following
    found = found if isinstance(found, np.ndarray) else found.toarray()
    np.testing.assert_allclose(found, gradient_and_hessian(X, u, n)[1], rtol=1e-12, atol=1e-14)


def test_a_jacobian_and_aux():
    seed(5)
    u = np.array([draw() for _ in X])
    for derivative in (ar.jacfwd(drawn_items), ar.jacobian(drawn_items)):
        seed(5)
        np.testing.assert_allclose(derivative(X), np.diag(2.0 * u * X), rtol=1e-12)
    with_aux = ar.jacrev(drawn_with_aux, has_aux=True)
    with_aux(X)
    seed(7)
    gradient, aux = with_aux(X)
    seed(7)
    assert aux == 2.0 * drawn(X)
    seed(7)
    np.testing.assert_allclose(gradient, gradient_and_hessian(X, *numbers(X.size))[0], rtol=1e-12)


def test_a_hessian_that_is_differentiated():
    """The derivative of Σ H² is 2 H ∂H, of which only 6 u x varies."""
    squares = ar.grad(numba.njit(lambda x: np.sum(ar.hessian(drawn)(x) ** 2)))
    squares(X)
    seed(7)
    found = squares(X)
    seed(7)
    u, _ = numbers(X.size)
    np.testing.assert_allclose(found, 72.0 * u**2 * X, rtol=1e-12)


def test_a_forward_rule_for_one_tangent_in_a_batch():
    @numba.njit
    def noisy(x):
        return random.random() * x * x

    @ar.forward(noisy)
    def noisy_forward(config, ret: ar.Duplicated, x: ar.Duplicated):
        u = random.random()
        return u * x.val**2, 2.0 * u * x.val * x.dval

    @ar.jacfwd
    def jacobian(x):
        return np.array([noisy(v) for v in x])

    jacobian(X)
    seed(5)
    found = jacobian(X)
    seed(5)
    u = np.array([draw() for _ in X])
    np.testing.assert_allclose(found, np.diag(2.0 * u * X), rtol=1e-12)


def test_generators_that_runs_would_share_are_refused():
    rng = np.random.default_rng(1)
    by_generator = numba.njit(lambda x, pair: np.sum(x * x) * pair[0].random())
    twice = numba.njit(lambda x, pair: ar.grad(by_generator)(x, pair)[0])
    checkpointed = ar.checkpoint(by_generator)
    for derivative in (ar.hessian(by_generator), ar.grad(twice), ar.grad(checkpointed)):
        with pytest.raises(ar.NotYetSupported, match="draws random numbers from an argument"):
            derivative(X, (rng,))


def test_declared_signatures_and_defaults():
    """Arguments are converted, or left out, as in a call."""

    @numba.njit("float64(float64, float64)")
    def declared(x, scale):
        return x**3 * scale * random.random()

    @numba.njit
    def with_default(x, scale=2.0):
        return x**3 * scale * random.random()

    checkpointed = ar.checkpoint(declared)
    programs = [
        lambda x: ar.vjp(declared, x, 2)[1](1.0)[0],
        lambda x: ar.vjp(with_default, x)[1](1.0)[0],
        lambda x: 6.0 * checkpointed(x, 2) / (x * x),
    ]
    found = []
    for gradient in map(ar.grad, programs):
        seed(3)
        found.append(gradient(0.5))
    seed(3)
    u = draw()
    assert found == pytest.approx([6.0 * u, 6.0 * u, 12.0 * u])
