"""Programs that are not yet supported: refused with an error that says where, never wrong."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient


@njit
def power_recursive(x, n):
    if n == 0:
        return 1.0
    return x * power_recursive(x, n - 1)


@njit
def recursive_callee(x, n):
    return power_recursive(x, n) * x


@njit
def arrays_made_of_nested_lists(x):
    for _ in range(3):
        a = np.array([[2.0 * x[0], x[1]], [1.0, -x[1]]])
        x = np.array([x[0] - a[0, 0] * a[1, 1], x[1] + a[0, 1]])
    return x[0] * x[1]


@njit
def norm(x):
    return np.linalg.norm(x)


REFUSED = [
    (recursive_callee, (1.5, 3), ar.UnknownCall),
    (arrays_made_of_nested_lists, (np.array([1.0, 2.0]),), ar.UnknownCall),
    (norm, (np.array([1.0, 2.0]),), ar.UnknownCall),
]


@pytest.mark.parametrize(("program", "args", "error"), REFUSED)
def test_refused_with_the_line(program, args, error):
    """The error names this file; support for a program moves it to its family."""
    with pytest.raises(error, match=r"test_refused\.py:\d+"):
        check_gradient(program, args)
