"""Entry points: their wrappers for Python are compiled with less optimisation."""

import sys

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar


@njit
def scaled(x, k):
    if k < 0.0:
        raise ValueError("negative")
    return k * x[0] * x[1]


def unoptimised(dispatcher) -> list[str]:
    """The kinds of functions of a dispatcher's one signature that are `optnone`."""
    (result,) = dispatcher.overloads.values()
    native, wrapper = result.fndesc.llvm_func_name, result.fndesc.llvm_cpython_wrapper_name
    kinds = {native: "native", wrapper: "wrapper"}
    left = [
        function.name
        for function in result.library.get_defined_functions()
        if any(b"optnone" in group for group in function.attributes)
    ]
    return sorted(kinds.get(name, name) for name in left if not name.startswith("activerules."))


def test_e1_the_wrapper_is_left_unoptimised_and_what_compiled_callers_link_is_not():
    stub = ar.grad(njit(scaled.py_func)).dispatcher
    stub.compile((float64[::1], float64))
    assert unoptimised(stub) == ["wrapper"]


@pytest.mark.parametrize("made", [ar.grad, ar.value_and_grad])
def test_no_reference_stays_behind_when_the_function_raises(made):
    x, gradient = np.array([2.0, 3.0]), made(scaled)
    before = sys.getrefcount(x)
    for k in -1.0, 2.0, -1.0:
        try:
            gradient(x, k)
        except ValueError:
            assert k < 0.0
    assert sys.getrefcount(x) == before


def test_no_shadow_stays_behind_when_the_function_raises(unfreed):
    gradient = ar.grad(scaled)

    def raises():
        with pytest.raises(ValueError, match="negative"):
            gradient(np.array([2.0, 3.0]), -1.0)

    assert unfreed(raises) == 0
