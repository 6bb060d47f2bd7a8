"""The rules of the library as plain Python, against finite differences; without the engine."""

import operator

import numpy as np
import pytest
from numba import float64

from activerules.annotations.activity import BY_NAME, Active, Const, Duplicated
from activerules.rules import library
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES

STEP = 1e-6


def types_of(values):
    return [float64[(slice(None),) * np.ndim(v)] if np.ndim(v) else float64 for v in values]


def check(function, *values, kinds, overwritten=False):
    """Compare <cotangent, directional derivative> with the rule's shadows, which start non-zero."""
    rng = np.random.default_rng(len(kinds))
    result = function(*values)
    w = rng.normal(size=np.shape(result))
    directions = [rng.normal(size=np.shape(v)) for v in values]
    kind_of_result = "duplicated" if np.ndim(result) else "active"
    pair = RULES.find(function, types_of(values), types_of([result])[0], kinds, kind_of_result)
    start = [rng.normal(size=np.shape(v)) for v in values]
    arguments = [
        Duplicated(v.copy(), s.copy()) if k == "duplicated" else BY_NAME[k](v.copy())
        for v, s, k in zip(values, start, kinds, strict=True)
    ]
    config = RuleConfig(overwritten=(overwritten,) * len(values))
    answer = pair.augmented(config, pair.result, *arguments)
    np.testing.assert_allclose(answer.primal, result)
    if overwritten:
        for argument in arguments:
            argument.val[...] = np.nan
    dret = Active(w)
    if kind_of_result == "duplicated":
        dret = Duplicated(answer.primal, answer.shadow + w)
        answer.primal[...] = np.nan
    returned = pair.reverse(config, dret, answer.tape, *arguments)
    found = expected = 0.0
    for i, kind in enumerate(kinds):
        if kind == "const":
            continue
        grown = arguments[i].dval - start[i] if kind == "duplicated" else returned[i]
        found += np.sum(grown * directions[i])
        ahead, behind = list(values), list(values)
        ahead[i] = values[i] + STEP * directions[i]
        behind[i] = values[i] - STEP * directions[i]
        change = function(*ahead) - function(*behind)
        expected += np.sum(w * change) / (2 * STEP)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-8)


def matrix(n):
    return np.random.default_rng(n).normal(size=(n, n)) + n * np.eye(n)


def vector(n):
    return np.random.default_rng(n).normal(size=n)


ACTIVITIES = [("duplicated", "duplicated"), ("duplicated", "const"), ("const", "duplicated")]


@pytest.mark.parametrize("overwritten", [False, True])
@pytest.mark.parametrize("kinds", ACTIVITIES)
@pytest.mark.parametrize("function", [np.dot, operator.matmul])
@pytest.mark.parametrize(
    "operands",
    [
        (vector(3), vector(3) + 1),
        (matrix(3), vector(3)),
        (vector(3), matrix(3)),
        (matrix(3)[:2], matrix(3)[:, 1:]),
    ],
    ids=["x·y", "A x", "x A", "A B"],
)
def test_products(function, operands, kinds, overwritten):
    check(function, *operands, kinds=kinds, overwritten=overwritten)


@pytest.mark.parametrize("overwritten", [False, True])
@pytest.mark.parametrize("kinds", ACTIVITIES)
@pytest.mark.parametrize("right", [vector(4), matrix(4)[:, :2]], ids=["vector", "matrix"])
def test_solve(right, kinds, overwritten):
    check(np.linalg.solve, matrix(4), right, kinds=kinds, overwritten=overwritten)


@pytest.mark.parametrize("function", [np.random.normal, np.random.uniform])
def test_random_numbers_follow_their_parameters(function):
    def drawn(*parameters):
        np.random.seed(7)
        return function(*parameters)

    parameters = (1.0, 2.5)
    pair = RULES.find(function, [float64] * 2, float64, ["active"] * 2, "active")
    np.random.seed(7)
    arguments = [Active(p) for p in parameters]
    answer = pair.augmented(RuleConfig((False, False)), Active, *arguments)
    derivatives = pair.reverse(None, Active(1.0), answer.tape, *arguments)
    for i, derivative in enumerate(derivatives):
        ahead = [p + STEP * (i == j) for j, p in enumerate(parameters)]
        slope = (drawn(*ahead) - drawn(*parameters)) / STEP
        assert derivative == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_what_has_no_derivative():
    assert library.inactive
    for function in (np.argsort, np.searchsorted, np.random.rand, np.random.seed):
        assert RULES.is_inactive(function)
    assert not RULES.is_inactive(np.random.normal)
    assert not RULES.is_inactive(np.sort)


def test_layouts_do_not_matter_and_complex_is_not_served():
    strided = float64[:]
    for array in (float64[::1], strided):
        assert RULES.find(np.dot, [array, array], float64, [Const, Duplicated], Active)
