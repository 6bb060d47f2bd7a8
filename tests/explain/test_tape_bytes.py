"""`tape_bytes`: what a run keeps, counted."""

import numpy as np
import pytest

import activerules as ar
from explain import functions


def used(n):
    x = np.full(n, 0.5)
    return ar.tape_bytes(functions.decay, ar.Duplicated(x, np.zeros(n)), ar.Active(0.1), n)


@pytest.mark.parametrize("n", [0, 3, 5000])
def test_grows_by_the_row_the_report_names(n):
    report = ar.explain(functions.decay, ar.Duplicated(np.ones(2), np.ones(2)), ar.Active(1.0), 2)
    (loop,) = report.loops
    rows = n * loop.row_bytes
    assert rows + report.frame_bytes <= used(n) <= rows + report.frame_bytes + 16


def test_a_function_that_keeps_nothing():
    assert ar.tape_bytes(functions.squared, ar.Active(3.0)) == 0


def test_const_return_has_nothing_to_undo():
    x = np.ones(50)
    args = (ar.Const(x), ar.Active(0.1), 50)
    assert ar.tape_bytes(functions.decay, *args, return_activity=ar.Const) == 0


def test_it_is_a_run_of_the_gradient():
    x, dx = np.ones(2), np.zeros(2)
    ar.tape_bytes(functions.two_arrays, ar.Duplicated(x, dx), ar.Duplicated(x * 0, np.ones(2)))
    np.testing.assert_array_equal(dx, 2 * x)


def test_a_plain_function():
    assert ar.tape_bytes(lambda x: x * x, ar.Active(3.0)) == 0


def test_errors_are_those_of_autodiff():
    with pytest.raises(ar.ArityError):
        ar.tape_bytes(functions.halving)
