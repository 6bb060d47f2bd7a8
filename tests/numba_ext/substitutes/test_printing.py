"""`print` in differentiated functions."""

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def printing(x, s):
    y = x * s
    print("y =", y[1:], s, 1j * s, (y, s, 2))
    for _ in range(2):
        print(y, y > 1.0)
        y *= y
    return y.sum()


def test_y1_arrays_are_printed_once_per_run_as_numba_prints_them(capfd):
    x = np.array([0.5, 2.0])
    value = printing(x, 1.5)
    expected = capfd.readouterr().out
    assert expected.count("\n") == 3

    found, slopes = ar.value_and_grad(printing)(x, 1.5)
    assert capfd.readouterr().out == expected
    assert found == value
    np.testing.assert_allclose(slopes, 4.0 * 1.5**4 * x**3, rtol=1e-14)

    tangent = ar.jvp(printing, (x, 1.5), (np.ones(2), 0.0))[1]
    assert capfd.readouterr().out == expected
    assert tangent == pytest.approx(slopes.sum())


def test_what_is_printed_as_another_object_is_refused():
    with pytest.raises(ar.UnknownCall, match=r"is printed[\s\S]*print the numbers"):
        ar.grad(njit(lambda x: (print([x, 2 * x]), x[0])[1]))(np.ones(2))
