"""Rules that call back into AD: on functions they are passed, and on functions that call them."""

import math

import numba
import numpy as np
import pytest
from numba import njit, objmode

import activerules as ar
from activerules.testing import check_gradient


@numba.njit
def map_over(f, x):
    y = np.empty_like(x)
    for i in range(x.size):
        y[i] = f(x[i])
    return y


@ar.augmented_primal(map_over)
def _(config, ret: ar.Duplicated, f: ar.Const, x: ar.Duplicated):
    y = map_over(f.val, x.val)
    return ar.AugmentedReturn(y, np.zeros_like(y), None)


@ar.reverse(map_over, saves="x")
def _(config, dret: ar.Duplicated, tape, f: ar.Const, x: ar.Duplicated):
    for i in range(x.val.size):
        (by_x,) = ar.autodiff(ar.Reverse, f.val, ar.Active(x.val[i]))
        x.dval[i] += by_x * dret.dval[i]


@numba.njit
def fixed_point(g, x, p):
    for _ in range(200):
        x = g(x, p)
    return x


@ar.augmented_primal(fixed_point)
def _(config, ret: ar.Active, g: ar.Const, x: ar.Const, p: ar.Active):
    y = fixed_point(g.val, x.val, p.val)
    return ar.AugmentedReturn(y, None, y)


@ar.reverse(fixed_point)
def _(config, dret: ar.Active, y, g: ar.Const, x: ar.Const, p: ar.Active):
    """By the implicit function theorem: y = g(y, p), so ẏ = gₓẏ + gₚṗ."""
    by_x, by_p = ar.autodiff(ar.Reverse, g.val, ar.Active(y), ar.Active(p.val))
    return None, None, dret.val * by_p / (1.0 - by_x)


@numba.njit
def euler(f, x0, p, steps):
    x = x0.copy()
    for _ in range(steps):
        x += 0.01 * f(x, p)
    return x


@ar.augmented_primal(euler)
def _(config, ret: ar.Duplicated, f: ar.Const, x0: ar.Duplicated, p: ar.Active, steps: ar.Const):
    path = np.empty((steps.val, x0.val.size))
    x = x0.val.copy()
    for k in range(steps.val):
        path[k] = x
        x += 0.01 * f.val(x, p.val)
    return ar.AugmentedReturn(x, np.zeros_like(x), path)


@ar.reverse(euler)
def _(
    config, dret: ar.Duplicated, path, f: ar.Const, x0: ar.Duplicated, p: ar.Active, steps: ar.Const
):
    """The adjoint of a step: λ += 0.01 (∂f/∂x)ᵀλ, backwards along the path."""
    adjoint, by_p, f_val = dret.dval.copy(), 0.0, f.val
    for k in range(steps.val - 1, -1, -1):
        out, seed, by_x = np.zeros_like(adjoint), 0.01 * adjoint, np.zeros_like(adjoint)
        x = ar.Duplicated(path[k], by_x)
        by_p += ar.autodiff(
            ar.Reverse, into, ar.Const, ar.Duplicated(out, seed), f_val, x, ar.Active(p.val)
        )[3]
        adjoint += by_x
    ar.accumulate(x0, adjoint)
    return None, None, by_p, None


@numba.njit
def into(out, f, x, p):
    out[:] = f(x, p)


@numba.njit
def wave(x):
    return math.sin(x) * x


@numba.njit
def cosine(x, p):
    return math.cos(p * x)


@numba.njit
def pendulum(x, p):
    return np.array([x[1], -p * math.sin(x[0])])


@numba.njit
def program(x, p):
    b = map_over(wave, x * 2.0)
    x2 = euler(pendulum, x, fixed_point(cosine, 0.5, p), 20)
    return b.sum() * x2[0] + x2[1]


def test_map_implicit_function_theorem_and_adjoint_of_a_solver():
    check_gradient(program, (np.array([0.3, 0.7]), 0.8))


@numba.njit
def power(n, x):
    if n == 0:
        return 1.0
    return x * power(n - 1, x)


@ar.augmented_primal(power)
def _(config, ret: ar.Active, n: ar.Const, x: ar.Active):
    return ar.AugmentedReturn(power(n.val, x.val), None, None)


@ar.reverse(power)
def _(config, dret: ar.Active, tape, n: ar.Const, x: ar.Active):
    return None, n.val * x.val ** (n.val - 1) * dret.val


def test_the_rule_of_a_recursive_function():
    @numba.njit
    def program(x):
        return power(4, x)

    np.testing.assert_allclose(ar.grad(program)(1.5), 4 * 1.5**3)
    assert ar.explain(program, ar.Active(1.5)).rules[0].name.endswith("power")


@numba.njit
def product_of(n, x):
    return 1.0 if n == 0 else x * product_of(n - 1, x)


@ar.forward(product_of)
def _(config, ret: ar.Duplicated, n: ar.Const, x: ar.Duplicated):
    return product_of(n.val, x.val), 1000.0 * x.dval


def test_the_body_of_a_recursive_function_in_the_mode_without_a_rule():
    with pytest.warns(ar.MissingForwardWarning):
        assert ar.jvp(power, (4, 1.5), (None, 1.0))[1] == pytest.approx(4 * 1.5**3)
    with pytest.warns(ar.MissingReverseWarning):
        assert ar.grad(product_of, argnums=1)(4, 1.5) == pytest.approx(4 * 1.5**3)
    ar.opt_out(product_of)
    assert ar.jvp(product_of, (4, 1.5), (None, 1.0))[1] == pytest.approx(4 * 1.5**3)


@numba.njit
def ratio_to(n, x, y):
    return y if n == 0 else ratio_to(n - 1, x, y) / x


def test_a_recursive_function_with_an_inactive_argument_is_refused():
    ar.inactive(ratio_to, args="y")
    with pytest.raises(ar.NotYetSupported, match="ratio_to in its own body"):
        ar.grad(ratio_to, argnums=1)(2, 1.5, 2.0)


# --- where a rule fires, and where it does not ---


@numba.njit
def tripled(x):
    return 3.0 * x


@ar.augmented_primal(tripled)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(tripled(x.val), None, None)


@ar.reverse(tripled)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 1000.0 * dret.val  # tells the rule from the body


@numba.njit(inline="always")
def inlined(x):
    return tripled(x)


@numba.experimental.jitclass([("k", numba.float64)])
class Model:
    """A model whose method calls a function with a rule."""

    def __init__(self, k):
        self.k = k

    def value(self, x):
        return tripled(x) * self.k


@numba.njit
def applied(f, x):
    return f(x)


def everywhere(x):
    def local(y):
        return tripled(y)

    return inlined(x) + applied(tripled, x) + local(x) + Model(2.0).value(x)


def test_a_rule_fires_wherever_its_function_is_called():
    assert ar.grad(everywhere)(1.0) == 5000.0
    fired = ar.explain(everywhere, ar.Active(1.0)).rules
    assert len(fired) == 4
    assert all("tripled(x: Active) -> Active" in (call.rule or "") for call in fired)


def test_rules_may_call_python():
    """The transform is SciPy's or NumPy's: Numba has none, so rules call it through Python."""

    @njit
    def transform(x):
        with objmode(y="complex128[::1]"):
            y = np.fft.fft(x) + 0j
        return y

    @ar.augmented_primal(transform)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        y = transform(x.val)
        return ar.AugmentedReturn(y, np.zeros_like(y), None)

    @ar.reverse(transform)
    def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated):
        y_bar = dret.dval
        with objmode(x_bar="complex128[::1]"):
            x_bar = np.fft.ifft(y_bar) * len(y_bar)
        ar.accumulate(x, x_bar.real)

    @njit
    def power(x):
        return np.sum(np.abs(transform(x)) ** 3)

    check_gradient(power, (np.array([1.0, 2.0, -1.0, 0.5]),))
