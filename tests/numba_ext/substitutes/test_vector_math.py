"""`.vector_math()`: vector functions in both sweeps, and nothing else changes."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.errors import UnknownCall
from activerules.numba_ext.substitutes import vector_math

N = 203
FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "log1p": np.log1p,
    "atan": np.arctan,
    "pow": None,  # with the exponent in the same precision
}


def tabulate(x, out):
    total = x[0] * 0
    for i in range(len(x)):
        y = x[i]
        out[0, i] = np.exp(y)
        out[1, i] = np.log(y)
        out[2, i] = np.sin(y)
        out[3, i] = np.cos(-y)
        out[4, i] = np.tanh(y)
        out[5, i] = np.log1p(y)
        out[6, i] = np.arctan(y)
        out[7, i] = y ** out[7, i]
    for i in range(len(x)):
        for k in range(8):
            total += out[k, i]
    return total


TABULATE = {fast: njit(fastmath=fast)(tabulate) for fast in (False, True)}


def derivative(fastmath, vector):
    f = TABULATE[fastmath]

    @njit
    def by_vectors(x, x_bar, out, out_bar):
        mode = ar.ReverseWithPrimal.vector_math()
        return ar.autodiff(mode, f, ar.Active, ar.Duplicated(x, x_bar), ar.Duplicated(out, out_bar))

    @njit
    def strictly(x, x_bar, out, out_bar):
        mode = ar.ReverseWithPrimal
        return ar.autodiff(mode, f, ar.Active, ar.Duplicated(x, x_bar), ar.Duplicated(out, out_bar))

    return by_vectors if vector else strictly


def run(g, dtype):
    x = np.random.default_rng(0).uniform(0.1, 3.0, N).astype(dtype)
    out = np.full((8, N), 1.7, dtype)
    x_bar = np.full(N, 0.25, dtype)
    value = g(x, x_bar, out, np.zeros_like(out))[1]
    return x, out, value, x_bar - dtype(0.25)


def called(g):
    return set(re.findall(r"_ZGV\w+?_(\w+)", "".join(g.inspect_asm().values())))


@pytest.mark.parametrize("fastmath", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_both_sweeps_call_vector_functions_within_four_units(fastmath, dtype):
    g = derivative(fastmath, True)
    x, out, value, slopes = run(g, dtype)
    suffix = "f" if dtype is np.float32 else ""
    close = 50 * float(np.finfo(dtype).eps)
    known = {name for name in FUNCTIONS if name + suffix in vector_math.vector_forms()}
    assert called(g) >= {name + suffix for name in known}
    wide = x.astype(np.longdouble)
    power = np.longdouble(dtype(1.7))
    functions = {**FUNCTIONS, "pow": lambda x: x**power}
    for k, f in enumerate(functions.values()):
        exact = f(wide)
        units = np.abs(out[k] - exact) / np.spacing(np.abs(exact).astype(dtype))
        assert units.max() <= 4.5  # half a unit more, since the unit is that of a rounded number
    total = sum(f(wide).sum() for f in functions.values())
    assert value == pytest.approx(float(total), rel=close)
    h = np.longdouble(1e-5)
    differences = sum((f(wide + h) - f(wide - h)) / (2 * h) for f in functions.values())
    np.testing.assert_allclose(slopes, differences.astype(float), rtol=max(1e-8, close))


@pytest.fixture(scope="module")
def strict():
    g = derivative(False, False)
    return g, run(g, np.float64)


def test_strict_code_stays_strict(strict):
    g, before = strict
    again = derivative(False, False)
    after = run(again, np.float64)
    assert not called(g) | called(again)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


@njit
def in_order(x):
    total = 0.0
    for i in range(len(x)):
        total += math.sqrt(x[i])
    return total * total


def test_sums_keep_their_order():
    x = np.random.default_rng(1).uniform(size=1003)
    found = [
        ar.autodiff(mode, in_order, ar.Active, ar.Duplicated(x, x_bar))[1]
        for mode in (ar.ReverseWithPrimal, ar.ReverseWithPrimal.vector_math())
        for x_bar in [np.zeros_like(x)]
    ]
    assert found[0] == found[1] == in_order(x) != sum(np.sqrt(x[::-1])) ** 2


def test_powers_with_simple_exponents_stay_products():
    @njit
    def f(x):
        total = 0.0
        for i in range(len(x)):
            total += x[i] ** 3.0
        return total

    @njit
    def g(x, x_bar):
        mode = ar.Reverse.vector_math()
        return ar.autodiff(mode, f, ar.Active, ar.Duplicated(x, x_bar))

    x, x_bar = np.linspace(-1.0, 2.0, 33), np.zeros(33)
    g(x, x_bar)
    np.testing.assert_allclose(x_bar, 3 * x**2, rtol=1e-15)
    assert not called(g)  # the slope is 3 x², and the value is not asked for


PROGRAM = """
import sys, numpy as np, activerules as ar
from numba import njit

@njit(cache=True)
def f(x):
    total = 0.0
    for i in range(len(x)):
        total += np.log(1.0 + x[i] * x[i])
    return total

@njit(cache=True)
def vectors(x, x_bar):
    return ar.autodiff(ar.ReverseWithPrimal.vector_math(), f, ar.Active, ar.Duplicated(x, x_bar))

@njit(cache=True)
def strict(x, x_bar):
    return ar.autodiff(ar.ReverseWithPrimal, f, ar.Active, ar.Duplicated(x, x_bar))

@njit(cache=True)
def caller(x, x_bar):
    return vectors(x, x_bar)

x = np.linspace(0.0, 3.0, 1001)
if sys.argv[1:]:
    value = caller(x, np.zeros(1001))[1]
    print(sum(caller.stats.cache_hits.values()), value)
    sys.exit()
results = [g(x, np.zeros(1001))[1] for g in (vectors, strict)]
assert abs(results[0] - results[1]) < 1e-11
assert results[1] == f(x)
print(sum(vectors.stats.cache_hits.values()), results[0])
"""


def test_cached_code_finds_the_functions_in_another_process(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-W", "error", "program.py"]
    outputs = [
        subprocess.run(
            [*command, *more], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        for more in ([], [], ["caller"], ["caller"])
    ]
    assert [run.stderr for run in outputs] == [""] * 4
    first, second, linked, alone = (run.stdout.split() for run in outputs)
    assert (first[0], second[0]) == ("0", "1")
    # compiled with what was found on disk, and then found without it
    assert (linked[0], alone[0]) == ("0", "1")
    assert first[1:] == second[1:] == linked[1:] == alone[1:]


def test_cached_code_is_refused_where_the_library_is_missing(monkeypatch):
    monkeypatch.setattr(vector_math, "_library", lambda: None)
    with pytest.raises(UnknownCall, match="libmvec, which this system does not have"):
        vector_math.load()


def test_without_the_library_the_option_has_no_effect(monkeypatch):
    monkeypatch.setattr(vector_math, "_library", lambda: None)
    assert vector_math.vector_forms.__wrapped__() == {}


def test_where_numba_has_svml_its_calls_are_left_alone(monkeypatch):
    monkeypatch.setattr("numba.config.USING_SVML", True)
    assert vector_math.vector_forms.__wrapped__() == {}
