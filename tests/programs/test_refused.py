"""Programs that are not yet supported: refused with an error that says where, never wrong."""

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


REFUSED = [
    (recursive_callee, (1.5, 3), ar.UnknownCall),
]


@pytest.mark.parametrize(("program", "args", "error"), REFUSED)
def test_refused_with_the_line(program, args, error):
    """The error names this file; support for a program moves it to its family."""
    with pytest.raises(error, match=r"test_refused\.py:\d+"):
        check_gradient(program, args)
