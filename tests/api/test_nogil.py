"""Derivatives of an `njit(nogil=True)` function release the GIL: compiled code waits for a thread
of Python, which could not run if it did not.
"""

import ctypes
import os
import threading

import numpy as np
import pytest
from numba import njit, objmode

import activerules as ar

usleep = ctypes.CDLL(None).usleep
usleep.argtypes, usleep.restype = (ctypes.c_uint,), ctypes.c_int

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the C library of POSIX is called")


@njit
def meet(here, there):
    """Say that compiled code runs, and wait until Python has answered, for two seconds at most."""
    here[0] = 1
    for _ in range(2000):
        if there[0] == 1:
            return 1.0
        usleep(1000)
    return 0.0


ar.inactive(meet)


def energy(x, here, there):
    return meet(here, there) * (x * x).sum()


released, held = njit(nogil=True)(energy), njit(energy)


@njit
def number_of_thread():
    with objmode(number="int64"):
        number = threading.get_ident()
    return number


ar.inactive(number_of_thread)


@njit(nogil=True)
def through_python(x, here, there):
    met = meet(here, there)
    return met * (x * x).sum() + 0.0 * number_of_thread()


X = np.array([1.0, 2.0])


def by_autodiff(f, *flags):
    dx = np.zeros(2)
    ar.autodiff(ar.Reverse, f, ar.Duplicated(X, dx), *flags)
    return dx


def by_halves(f, *flags):
    dx, const = np.zeros(2), [ar.Const, ar.Const]
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitNoPrimal, f, ar.Active, ar.Duplicated, *const
    )
    tape = augmented(ar.Duplicated(X, dx), *flags)[0]
    reverse(ar.Duplicated(X, dx), *flags, 1.0, tape)
    return dx


SLOPES = {
    "grad": lambda f, *flags: ar.grad(f)(X, *flags),
    "vjp": lambda f, *flags: ar.vjp(f, X, *flags)[1](1.0)[0],
    "autodiff": by_autodiff,
    "autodiff_thunk": by_halves,
    "jvp": lambda f, *flags: np.array(
        [ar.jvp(f, (X, *flags), (one, None, None))[1] for one in np.eye(2)]
    ),
}


def slope(how, f):
    """The slope of `f` with a thread that answers it as soon as it runs."""
    here, there = np.zeros(1, np.int64), np.ones(1, np.int64)
    how(f, here, there)  # compiled
    here[:], there[:], ended = 0, 0, threading.Event()

    def answer():
        while not here[0] and not ended.is_set():
            pass
        there[0] = 1

    thread = threading.Thread(target=answer)
    thread.start()
    found = how(f, here, there)
    ended.set()
    thread.join()
    return found


@pytest.mark.parametrize("how", SLOPES.values(), ids=SLOPES)
def test_derivatives_of_nogil_functions_release_the_gil(how):
    np.testing.assert_array_equal(slope(how, released), 2.0 * X)


def test_other_derivatives_hold_it():
    np.testing.assert_array_equal(slope(SLOPES["autodiff"], held), 0.0 * X)


def test_python_is_called_with_the_gil():
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(slope(SLOPES["grad"], through_python)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found, [2.0 * X] * 3)
