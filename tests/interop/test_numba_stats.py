"""Rules of special functions that numba_stats calls by their addresses, in both modes."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient

special = pytest.importorskip("numba_stats._special")

from activerules.interop import numba_stats  # noqa: E402, F401 (after the check that it is there)

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "numba_packages.md"

# the function, the arguments that stay constant, and those with derivatives
POINTS = [
    ("ndtri", (), (0.2,)),
    ("erfcx", (), (-0.7,)),
    ("log_ndtr", (), (-0.8,)),
    ("xlogy", (), (0.7, 1.3)),
    ("xlog1py", (), (0.7, 1.3)),
    ("owens_t", (), (0.7, -1.3)),
    ("gammainc", (1.7,), (0.9,)),
    ("gammaincc", (1.7,), (0.9,)),
    ("gammaincinv", (1.7,), (0.3,)),
    ("stdtr", (3.3,), (0.7,)),
    ("stdtrit", (3.3,), (0.3,)),
    ("kv", (1.3,), (0.8,)),
    ("ive", (1.3,), (0.8,)),
    ("betainc", (1.3, 2.2), (0.3,)),
]


@pytest.mark.parametrize(("name", "constant", "point"), POINTS, ids=[p[0] for p in POINTS])
def test_both_modes_agree_with_differences(name, constant, point):
    function = getattr(special, name)
    parameters = "xy"[: len(point)]
    source = f"lambda {', '.join(parameters)}: f({', '.join([*map(repr, constant), *parameters])})"
    g = njit(eval(source, {"f": function}))
    check_gradient(g, point)
    slopes = ar.grad(g, argnums=tuple(range(len(point))))(*point)
    assert ar.jvp(g, point, (1.0,) * len(point))[1] == pytest.approx(sum(slopes), rel=1e-12)


BORDERS = [
    # far out, by the first terms of asymptotic series
    ("erfcx", (), (1e8,), -1.0 / (np.sqrt(np.pi) * 1e16)),
    ("log_ndtr", (), (-1e8,), 1e8),
    ("log_ndtr", (), (-1e4,), 1e4 + 1e-4),
    ("stdtr", (1e10,), (0.3,), np.exp(-0.045) / np.sqrt(2.0 * np.pi)),
    ("gammainc", (2.0,), (np.inf,), 0.0),
    ("gammaincinv", (2.0,), (1.0,), np.inf),
    # at the border of the domain
    ("gammainc", (1.0,), (0.0,), 1.0),
    ("gammaincc", (1.0,), (0.0,), -1.0),
    ("betainc", (1.0, 3.0), (0.0,), 3.0),
    ("betainc", (3.0, 1.0), (1.0,), 3.0),
    ("xlogy", (0.0,), (0.0,), 0.0),
    ("xlog1py", (0.0,), (-1.0,), 0.0),
]


@pytest.mark.parametrize(("name", "constant", "point", "slope"), BORDERS)
def test_tails_and_borders(name, constant, point, slope):
    function = getattr(special, name)
    g = njit(eval(f"lambda x: f({', '.join([*map(repr, constant), 'x'])})", {"f": function}))
    assert ar.grad(g)(*point) == pytest.approx(slope, rel=1e-9)
    assert ar.jvp(g, point, (1.0,))[1] == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("x", [-1e4, -3.0, 3.0, 40.0])
def test_the_second_derivative_of_a_tail(x):
    tail = njit(lambda x: special.log_ndtr(x))
    slope = ar.grad(tail)
    # with the slope s: s' = -s (x + s), which is -1 far out to the left
    expected = -slope(x) * (x + slope(x)) if x > -1e3 else -1.0
    assert ar.hessian(tail)(x) == pytest.approx(expected, rel=1e-7)


def test_second_derivative_of_a_quantile():
    quantile = njit(lambda p: special.ndtri(p))
    y = quantile(0.3)
    expected = 2.0 * np.pi * np.exp(y * y) * y  # y'' = y y'^2
    found = ar.hvp(lambda x: quantile(x[0]), np.array([0.3]), np.ones(1))
    assert found[0] == pytest.approx(expected, rel=1e-12)


def test_a_shape_without_closed_form_is_refused_by_name():
    with pytest.raises(ar.NoRuleForActivity, match=r"no reverse rule for gammainc\(Active"):
        ar.grad(njit(lambda a: special.gammainc(a, 0.9)))(1.7)


@pytest.mark.parametrize(
    ("distribution", "functions", "parameters"),
    [
        ("norm", "pdf logpdf cdf ppf", (0.4, 1.3)),
        ("gamma", "pdf cdf", (2.2, 0.1, 1.1)),
        ("skewnorm", "pdf cdf", (0.7, 0.1, 1.2)),
        ("t", "logpdf", (3.3, 0.4, 1.2)),
    ],
)
def test_distributions_of_the_page(distribution, functions, parameters):
    """With respect to the observations, location and scale."""
    module = importlib.import_module(f"numba_stats.{distribution}")
    row = next(r for r in PAGE.read_text().splitlines() if r.startswith(f"| `{distribution}`"))
    for name in functions.split():
        assert f"`{name}`" in row
        *shape, location, scale = parameters
        given = ", ".join(["x", *map(repr, shape), "location", "scale"])
        source = f"lambda x, location, scale: np.sum(f({given}) * np.cos(x))"
        total = njit(eval(source, {"f": getattr(module, name), "np": np}))
        x = np.linspace(0.15, 0.9, 4) if name == "ppf" else np.linspace(0.3, 2.0, 4)
        check_gradient(total, (x, location, scale))
