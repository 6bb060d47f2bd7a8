"""Functions that every bridge is tried with: one of a number, one of a tuple."""

import numpy as np
import pytest
from numba import njit

from activerules.interop import functions


@pytest.fixture
def forward_runs(monkeypatch):
    """The functions that are run, also by forward sweeps."""
    runs, run = [], functions.run_compiled

    def counted(function, *args):
        runs.append(function)
        return run(function, *args)

    monkeypatch.setattr(functions, "run_compiled", counted)
    return runs


@njit
def energy(x, a, n):
    s = 0.0
    for i in range(x.size - 1):
        s += np.sin(x[i] * a) * x[i + 1] ** n
    return s


@njit
def filtered(x, a):
    y = np.empty_like(x)
    for i in range(x.size):
        y[i] = np.sin(x[i] * a) * x[i - 1]
    return y, y.sum() * a, x.size
