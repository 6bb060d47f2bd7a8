"""The rules of the library as plain Python, against finite differences; without the engine."""

import operator

import numpy as np
import pytest
from numba import complex128, float64

from activerules.annotations.activity import BY_NAME, Active, Const, Duplicated
from activerules.rules import library
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES

STEP = 1e-6


def types_of(values):
    numbers = [complex128 if np.iscomplexobj(v) else float64 for v in values]
    return [
        number[(slice(None),) * np.ndim(v)] if np.ndim(v) else number
        for number, v in zip(numbers, values, strict=True)
    ]


def sample(rng, like):
    """Random numbers, complex where `like` is."""
    imaginary = 1j * rng.normal(size=np.shape(like)) if np.iscomplexobj(like) else 0
    return rng.normal(size=np.shape(like)) + imaginary


def inner(cotangent, tangent):
    return np.sum(np.conj(cotangent) * tangent).real


def check(function, *values, kinds, overwritten=False):
    """Compare <cotangent, directional derivative> with the rule's shadows, which start non-zero."""
    rng = np.random.default_rng(len(kinds))
    result = function(*values)
    w = sample(rng, result)
    directions = [sample(rng, v) for v in values]
    kind_of_result = "duplicated" if np.ndim(result) else "active"
    pair = RULES.find(function, types_of([*values, result]), (*kinds, kind_of_result))
    start = [sample(rng, v) for v in values]
    arguments = [
        Duplicated(v.copy(), s.copy()) if k == "duplicated" else BY_NAME[k](v.copy())
        for v, s, k in zip(values, start, kinds, strict=True)
    ]
    config = RuleConfig(overwritten=(overwritten,) * len(values))
    answer = pair.augmented(config, pair.result, *arguments)
    np.testing.assert_allclose(answer.primal, result)
    require_no_shadow(pair, arguments, answer)
    for i, argument in enumerate(arguments):
        if overwritten and i not in pair.saves:  # those the engine copies
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
        found += inner(grown, directions[i])
        ahead, behind = list(values), list(values)
        ahead[i] = values[i] + STEP * directions[i]
        behind[i] = values[i] - STEP * directions[i]
        change = function(*ahead) - function(*behind)
        expected += inner(w, change) / (2 * STEP)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-8)


def require_no_shadow(pair, arguments, answer):
    """The promise by which several shadows share one run of the augmented primal."""
    assert not pair.keeps_shadow
    shadows = [x.dval for x in arguments if isinstance(x, Duplicated)]
    if answer.shadow is not None:
        assert not answer.shadow.any()
        shadows.append(answer.shadow)
    tape = answer.tape if isinstance(answer.tape, tuple) else (answer.tape,)
    for part in tape:
        assert not any(np.may_share_memory(part, shadow) for shadow in shadows)


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


C, z = matrix(3) + 1j * matrix(3)[::-1], vector(3) + 1j * matrix(3)[0]
COMPLEX = {
    "x·y": (np.dot, z, 1j * z + 1),
    "conj(x)·y": (np.vdot, z, 1j * z + 1),
    "A x": (np.dot, C, z),
    "x A": (np.dot, z, C),
    "A B": (np.dot, C[:2], C[:, 1:]),
    "A⁻¹ b": (np.linalg.solve, C, z),
    "A⁻¹ B": (np.linalg.solve, C, C[:, 1:]),
    "inv": (np.linalg.inv, C),
    "det": (np.linalg.det, C),
    "norm": (np.linalg.norm, z),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    function, *operands = COMPLEX[name]
    check(function, *operands, kinds=("duplicated",) * len(operands), overwritten=True)


@pytest.mark.parametrize("order", [3, 1.5, np.inf, -np.inf])
def test_norms_of_complex_vectors(order):
    def norm(x, ord):
        return np.linalg.norm(x, ord)

    pair = RULES.find(np.linalg.norm, types_of([z, 1.0, 1.0]), ("duplicated", "const", Active))
    x = Duplicated(z.copy(), np.ones_like(z))
    answer = pair.augmented(RuleConfig((False, False)), Active, x, Const(order))
    pair.reverse(None, Active(2.0), answer.tape, x, Const(order))
    step = 1e-6 * (0.3 + 1j) * np.arange(3)
    change = np.linalg.norm(z + step, order) - np.linalg.norm(z - step, order)
    assert inner(x.dval - 1, step) == pytest.approx(change, rel=1e-6)


def test_cholesky_of_a_complex_matrix_reads_the_lower_triangle():
    A = C @ np.conj(C).T + np.eye(3)
    rng = np.random.default_rng(0)
    w, direction = sample(rng, C), np.tril(sample(rng, C))
    hermitian = STEP * (direction + np.conj(np.tril(direction, -1)).T)
    hermitian -= 1j * np.diag(np.diag(hermitian).imag)
    pair = RULES.find(np.linalg.cholesky, types_of([A, A]), ("duplicated", "duplicated"))
    x = Duplicated(A, np.zeros_like(A))
    answer = pair.augmented(RuleConfig((False,)), Duplicated, x)
    pair.reverse(None, Duplicated(answer.primal, w), answer.tape, x)
    change = np.linalg.cholesky(A + hermitian) - np.linalg.cholesky(A - hermitian)
    assert inner(x.dval, STEP * direction) == pytest.approx(inner(w, change) / 2, rel=1e-6)


def test_what_has_no_derivative():
    assert library.inactive
    for function in (np.argsort, np.searchsorted, np.random.rand, np.random.seed):
        assert RULES.is_inactive(function)
    assert not RULES.is_inactive(np.random.normal)
    assert not RULES.is_inactive(np.sort)


def test_layouts_do_not_matter():
    strided = float64[:]
    for array in (float64[::1], strided):
        assert RULES.find(np.dot, [array, array, float64], [Const, Duplicated, Active])
