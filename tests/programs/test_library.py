"""The program library itself: every program compiles, is finite and smooth at its points."""

import math

import numpy as np
import pytest

from activerules.testing.numeric import copied, is_differentiable
from programs import Program, all_programs, sample

PROGRAMS = all_programs()


def test_names_are_unique():
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names)


def same(x, y) -> bool:
    if isinstance(x, tuple):
        return all(same(p, q) for p, q in zip(x, y, strict=True))
    return np.array_equal(x, y)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_points_are_reproducible_and_have_something_active(program: Program):
    first, second = program.points(), program.points()
    for a, b in zip(first, second, strict=True):
        assert all(same(x, y) for x, y in zip(a, b, strict=True))
        assert any(
            is_differentiable(x) and name not in program.const
            for name, x in zip(program.parameters, a, strict=False)
        )


# Numba has random numbers of its own, and takes a builtin as an argument from compiled code only.
COMPILED_ONLY = {"calls.function_as_argument"}
REPEATABLE = [
    program
    for program in PROGRAMS
    if "random" not in program.function.py_func.__code__.co_names
    and program.name not in COMPILED_ONLY
]


# Interpreted, a typed list takes plain lists by way of reflected ones.
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPendingDeprecationWarning")
@pytest.mark.parametrize("program", sample(REPEATABLE, 50), ids=lambda program: program.name)
def test_python_and_numba_agree(program: Program):
    """The programs mean what they say: some of them run interpreted as well."""
    args = program.points()[0]
    interpreted = tuple(map(copied, args))
    compiled = tuple(map(copied, args))
    expected = program.function.py_func(*interpreted)
    found = program.function(*compiled)
    if expected is not None:
        assert math.isclose(found, expected, rel_tol=1e-5)
    for a, b in zip(compiled, interpreted, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=1e-5)
