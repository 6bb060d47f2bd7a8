"""SciPy's functions with derivatives filled in, against SciPy's own with finite differences."""

import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from scipy import integrate, ndimage, optimize, sparse

import activerules as ar
from activerules.interop import scipy as bridge


@njit
def rosenbrock(x, scale=100.0):
    s = 0.0
    for i in range(x.size - 1):
        s += scale * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


@njit
def residuals(x, t, y):
    return x[0] * np.exp(-x[1] * t) + x[2] - y


@njit
def meeting(x, c):
    return np.array([x[0] ** 2 + x[1] ** 2 - c, np.exp(x[0]) - 3.0 * x[1]])


@njit
def robertson(t, y, k):
    slow, fast = k * y[0], 1e4 * y[1] * y[2]
    last = 3e7 * y[1] ** 2
    return np.array([fast - slow, slow - fast - last, last])


START = np.array([0.7, 1.4, 0.9])


class Seen:
    """A stand-in for a bar of tqdm."""

    def __init__(self):
        self.count, self.shown = 0, []

    def update(self, n):
        self.count += n

    def set_postfix(self, value, refresh):
        self.shown.append(float(value))


EXACT = {
    "gradient": {"jac": optimize.rosen_der},
    "products": {"jac": optimize.rosen_der, "hessp": optimize.rosen_hess_prod},
    "Hessian": {"jac": optimize.rosen_der, "hess": optimize.rosen_hess},
}


@pytest.mark.parametrize(
    ("method", "derivatives"),
    [
        *((name, "gradient") for name in (None, "CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP")),
        *((n, "products") for n in ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr")),
        *((name, "Hessian") for name in ("dogleg", "trust-exact")),
    ],
)
def test_minimize_is_scipys_with_exact_derivatives(method, derivatives):
    """The same way to the minimum, and the same counts, as with derivatives written by hand."""
    start = START if method != "dogleg" else np.array([1.01, 1.02, 1.041])  # needs convexity
    mine = bridge.minimize(rosenbrock, start, method=method)
    by_hand = optimize.minimize(optimize.rosen, start, method=method, **EXACT[derivatives])
    assert mine.success
    np.testing.assert_allclose(mine.x, by_hand.x, atol=1e-5)
    for counted in ("nit", "nfev", "njev", "nhev"):
        assert mine.get(counted) == by_hand.get(counted), counted


def test_one_evaluation_gives_value_and_gradient():
    seen = Seen()
    found = bridge.minimize(rosenbrock, START, method="L-BFGS-B", progress=seen)
    assert seen.count == found.nfev == found.njev
    np.testing.assert_allclose(min(seen.shown), found.fun, rtol=1e-5)


def test_what_is_given_is_passed_on():
    calls = []

    def gradient(x, scale):
        calls.append(scale)
        return ar.grad(rosenbrock)(x, scale)

    bounds = optimize.Bounds([-2.0] * 3, [0.5, 2.0, 2.0])
    found = bridge.minimize(rosenbrock, START, 10.0, "L-BFGS-B", gradient, bounds=bounds)
    assert calls
    assert set(calls) == {10.0}
    assert found.x[0] == 0.5
    both = bridge.minimize(lambda x: (optimize.rosen(x), optimize.rosen_der(x)), START, jac=True)
    np.testing.assert_allclose(both.x, 1.0, atol=1e-4)


def test_a_method_without_derivatives_and_one_of_the_users_own():
    found = bridge.minimize(rosenbrock, START, method="Nelder-Mead", options={"maxfev": 2000})
    assert "njev" not in found
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)

    def descend(fun, x0, args=(), jac=None, hessp=None, **options):
        step = np.linalg.solve(np.array([hessp(x0, e, *args) for e in np.eye(3)]), jac(x0, *args))
        return optimize.OptimizeResult(x=x0 - step, fun=fun(x0, *args))

    found = bridge.minimize(rosenbrock, START, method=descend)
    step = np.linalg.solve(optimize.rosen_hess(START), optimize.rosen_der(START))
    np.testing.assert_allclose(found.x, START - step, rtol=1e-9)


def test_constraints_by_compiled_functions_have_exact_jacobians():
    @njit
    def circle(x):
        return x[0] ** 2 + x[1] ** 2 - 1.0

    @njit
    def distance(x, a):
        return (x[0] - a) ** 2 + (x[1] - 1.0) ** 2

    target = np.array([2.0, 1.0]) / np.sqrt(5.0)
    as_dict = {"type": "eq", "fun": circle}
    found = bridge.minimize(distance, np.ones(2), (2.0,), "SLSQP", constraints=[as_dict])
    np.testing.assert_allclose(found.x, target, atol=1e-6)
    assert list(as_dict) == ["type", "fun"]
    as_object = optimize.NonlinearConstraint(circle, 0.0, 0.0)
    found = bridge.minimize(distance, np.ones(2), (2.0,), "trust-constr", constraints=as_object)
    np.testing.assert_allclose(found.x, target, atol=1e-6)
    assert found.constr_njev[0] > 0
    assert found.constr_nfev[0] <= found.nfev  # no differences
    assert as_object.jac == "2-point"


@pytest.mark.parametrize(
    "x0", [np.arange(3), START.astype(np.float32), np.repeat(START, 2)[::2], (0.7, 1.4, 0.9)]
)
def test_a_start_of_any_kind_is_computed_with_in_double_precision(x0):
    found = bridge.minimize(rosenbrock, x0, (10.0,), "L-BFGS-B")
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)
    assert not [s for s in rosenbrock.signatures if "float32" in str(s)]


def test_a_read_only_start_stays_as_it_is():
    x0 = START.copy()
    x0.setflags(write=False)

    @njit
    def spoils(x):
        x *= 2.0
        return rosenbrock(x)

    found = bridge.minimize(spoils, x0, method="BFGS")
    np.testing.assert_allclose(found.x, 0.5, atol=1e-4)
    np.testing.assert_array_equal(x0, START)


def test_least_squares_and_its_jacobians():
    t = np.linspace(0.0, 4.0, 30)
    y = residuals(np.array([2.0, 0.7, 0.3]), t, np.zeros_like(t))
    seen = Seen()
    found = bridge.least_squares(residuals, np.ones(3), args=(t, y), progress=seen)
    np.testing.assert_allclose(found.x, [2.0, 0.7, 0.3], rtol=1e-6)
    assert seen.count == found.nfev >= found.njev
    np.testing.assert_allclose(
        found.jac, np.stack([np.exp(-0.7 * t), -2.0 * t * np.exp(-0.7 * t), np.ones(30)], 1),
        atol=1e-6,
    )  # fmt: skip
    settings = {"tr_solver": "lsmr", "args": (t, y), "bounds": (0.0, 5.0)}
    found = bridge.least_squares(residuals, np.ones(3), "operator", **settings)
    np.testing.assert_allclose(found.x, [2.0, 0.7, 0.3], rtol=1e-6)
    settings |= {"args": (t,), "kwargs": {"y": y}}
    found = bridge.least_squares(residuals, np.ones(3), "operator", **settings)
    np.testing.assert_allclose(found.x, [2.0, 0.7, 0.3], rtol=1e-6)
    found = bridge.least_squares(residuals, np.ones(3), "3-point", args=(t, y))
    np.testing.assert_allclose(found.x, [2.0, 0.7, 0.3], rtol=1e-6)


@njit
def chain(x):
    y = np.empty(x.size + 1)
    y[0], y[-1] = x[0] - 1.0, x[-1] - 1.0
    for i in range(1, x.size):
        y[i] = 3.0 * (x[i] - x[i - 1] ** 2)
    return y


@pytest.mark.parametrize("structure", ["detect", None])
def test_least_squares_with_a_sparse_jacobian(structure):
    n = 40
    if structure is None:
        ones = np.ones(n)
        structure = sparse.diags_array([ones, ones], offsets=[0, -1], shape=(n + 1, n))
    found = bridge.least_squares(chain, 0.8 * np.ones(n), jac_sparsity=structure)
    assert sparse.issparse(found.jac)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov"])
def test_root(method):
    mine = bridge.root(meeting, np.array([1.0, 1.0]), (4.0,), method)
    assert mine.success
    np.testing.assert_allclose(meeting(mine.x, 4.0), 0.0, atol=1e-5)
    assert ("njev" in mine) == (method != "krylov")


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", integrate.BDF, "RK23"])
def test_solve_ivp(method):
    y0, args, span = np.array([1.0, 0.0, 0.0]), (0.04,), (0.0, 1e-3 if method == "RK23" else 40.0)
    with np.errstate(all="ignore"):
        expected = integrate.solve_ivp(
            robertson.py_func, (0, span[1]), y0, "Radau", args=args, rtol=1e-9, atol=1e-12
        )
    found = bridge.solve_ivp(robertson, span, y0, method, args=args, rtol=1e-7, atol=1e-10)
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], expected.y[:, -1], rtol=1e-4)
    assert found.njev == 0 if method == "RK23" else True


def test_solve_ivp_does_not_evaluate_for_its_jacobian():
    y0, args = np.array([1.0, 0.0, 0.0]), (0.04,)
    seen = Seen()
    mine = bridge.solve_ivp(robertson, (0, 40), y0, "Radau", args=args, progress=seen)
    differences = integrate.solve_ivp(robertson, (0, 40), y0, "Radau", args=args)
    assert mine.nfev == seen.count <= differences.nfev
    structure = np.array([[1, 1, 1], [1, 1, 1], [0, 1, 0]])
    found = bridge.solve_ivp(robertson, (0, 40), y0, "BDF", args=args, jac_sparsity=structure)
    np.testing.assert_allclose(found.y[:, -1], mine.y[:, -1], rtol=1e-2)


@pytest.mark.parametrize("method", ["Radau", "LSODA"])
def test_solve_ivp_of_tuples_and_floats(method):
    """What SciPy takes for a vector."""

    @njit
    def turning(t, y):
        return y[1], -y[0]

    @njit
    def decay(t, y):
        return -2.0 * y[0]

    tolerances = {"rtol": 1e-8, "atol": 1e-10}
    turned = bridge.solve_ivp(turning, (0.0, 1.0), np.array([1.0, 0.0]), method, **tolerances)
    np.testing.assert_allclose(turned.y[:, -1], [np.cos(1.0), -np.sin(1.0)], atol=1e-6)
    decayed = bridge.solve_ivp(decay, (0.0, 1.0), np.ones(1), method, **tolerances)
    np.testing.assert_allclose(decayed.y[0, -1], np.exp(-2.0), atol=1e-6)


def test_a_list_as_result_is_refused_with_what_to_write():
    with pytest.raises(ar.NotYetSupported) as caught:
        bridge.root(njit(lambda x: [x[0] - 1.0, x[1]]), np.ones(2))
    assert "returns list[float64], and" in str(caught.value)
    assert caught.value.instead[0] == "a tuple, or np.array([…])"


def test_solve_ivp_of_complex_numbers():
    @njit
    def turning(t, y):
        return np.array([1j * y[0] - 50.0 * (y[0] - np.exp(1j * t))])

    found = bridge.solve_ivp(turning, (0.0, 1.0), np.array([1.0 + 0j]), "BDF", rtol=1e-6)
    np.testing.assert_allclose(found.y[0, -1], np.exp(1j), atol=1e-4)


# --- callbacks of C ---


def test_integrals_without_python():
    @njit
    def integrand(x, a, n):
        return a * np.cos(x) ** int(n)

    exact = integrate.quad(bridge.low_level(np.cos), 0.0, 1.0)[0]
    np.testing.assert_allclose(exact, np.sin(1.0))
    found = integrate.quad(bridge.low_level(integrand), 0.0, np.pi / 2, args=(3.0, 2.0))[0]
    np.testing.assert_allclose(found, 3.0 * np.pi / 4)
    slope = integrate.quad(bridge.low_level(ar.grad(integrand)), 0.0, 1.0, args=(3.0, 2.0))[0]
    np.testing.assert_allclose(slope, 3.0 * (np.cos(1.0) ** 2 - 1.0))


def test_a_callback_outlives_its_function():
    callback = bridge.low_level(njit(lambda x: 3.0 * x * x))
    for k in range(3):
        bridge.low_level(njit(lambda x: x + k))
    np.testing.assert_allclose(integrate.quad(callback, 0.0, 2.0)[0], 8.0)


IMAGE = np.random.default_rng(1).normal(size=(7, 8))


@njit
def spread(window):
    return window.max() - window.min()


@njit
def doubled(line, out):
    out[:] = 2.0 * line[1:-1] - line[2:]


@njit
def moved(point):
    return point[0] - 0.5, 0.8 * point[1] + 0.1 * point[0]


def test_filters_without_python():
    np.testing.assert_array_equal(
        ndimage.generic_filter(IMAGE, bridge.low_level(spread, "generic_filter"), 3),
        ndimage.generic_filter(IMAGE, spread, 3),
    )
    np.testing.assert_array_equal(
        ndimage.generic_filter1d(IMAGE, bridge.low_level(doubled, "generic_filter1d"), 3),
        ndimage.generic_filter1d(IMAGE, doubled, 3),
    )
    np.testing.assert_array_equal(
        ndimage.geometric_transform(IMAGE, bridge.low_level(moved, "geometric_transform")),
        ndimage.geometric_transform(IMAGE, moved),
    )


def test_what_raises_in_a_callback_is_not_a_number_or_an_error():
    @njit
    def refuses(window):
        if window[0] > 0.0:
            raise ValueError("too large")
        return 1.0

    with pytest.raises(RuntimeError):
        ndimage.generic_filter(IMAGE, bridge.low_level(refuses, "generic_filter"), 3)
    with pytest.warns(integrate.IntegrationWarning):
        assert np.isnan(integrate.quad(bridge.low_level(lambda x: 1.0 / (x - x)), 0.0, 1.0)[0])
    with pytest.warns(integrate.IntegrationWarning):  # `a` is not given
        assert np.isnan(integrate.quad(bridge.low_level(lambda x, a: a * x), 0.0, 1.0)[0])


# --- bad input ---


def test_a_result_that_is_not_a_number():
    for call in (
        lambda: bridge.minimize(chain, np.ones(3)),
        lambda: bridge.low_level(lambda x: (x, x)),
        lambda: bridge.low_level(lambda w: w, "generic_filter"),
    ):
        with pytest.raises(ar.NotAFloatReturn):
            call()


def test_what_is_no_function_for_numba():
    with pytest.raises(ar.NotCompilable):
        bridge.minimize("rosenbrock", START)
    with pytest.raises(ar.NotCompilable):
        bridge.least_squares(Seen(), START)
    with pytest.raises(ar.NotCompilable):
        bridge.low_level(Seen().update)


@pytest.mark.parametrize("solve", [bridge.minimize, bridge.least_squares, bridge.root])
def test_a_start_in_a_dictionary(solve):
    with pytest.raises(ar.ActivityError, match="a vector of numbers"):
        solve(lambda p: p["a"], {"a": 1.0})


def test_a_callback_with_other_parameters():
    with pytest.raises(ar.ArityError, match="is not a function of"):
        bridge.low_level(lambda line: line[0], "generic_filter1d")
    with pytest.raises(ar.ArityError):
        bridge.low_level(lambda *x: 1.0)
    with pytest.raises(ValueError, match="no purpose 'nquad'"):
        bridge.low_level(np.cos, "nquad")


@pytest.mark.parametrize(
    ("hidden", "statement", "line"),
    [
        ("scipy", "from activerules.interop import scipy", "activerules[scipy]"),
        ("torch", "import activerules as ar; ar.interop.torch", "activerules[torch]"),
        ("jax", "import activerules.interop.jax", "activerules[jax]"),
        ("pytensor", "from activerules.interop import pytensor", "activerules[pytensor]"),
        (
            "tqdm",
            "from activerules.interop.scipy import root; root(abs, 1.0, progress=True)",
            "activerules[progress]",
        ),
    ],
)
def test_an_extra_that_is_not_installed(hidden, statement, line):
    program = f"import sys; sys.modules[{hidden!r}] = None; {statement}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"MissingExtra: {hidden} is not installed" in done.stderr
    assert f'pip install "{line}"' in done.stderr


def test_no_bridge_is_loaded_before_it_is_asked_for():
    program = (
        "import activerules as ar, sys; ar.interop, dir(ar.interop)\n"
        "bridges = {'scipy.optimize', 'jax', 'torch', 'pytensor'}\n"
        "assert not bridges & set(sys.modules), bridges & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
