import gc
import subprocess
import sys

import pytest
from numba import njit, types

from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline import compile_derivative as module


@pytest.mark.parametrize(
    ("usual", "meanwhile"), [(700, 50_000), (10**6, 10**6), (0, 0)], ids=["usual", "rare", "off"]
)
def test_garbage_is_collected_rarely_only_while_a_derivative_is_made(usual, meanwhile, monkeypatch):
    seen = []

    def derive(*_, **__):
        seen.append(gc.get_threshold())
        raise KeyError("refused")

    monkeypatch.setattr(module, "derive", derive)
    before = gc.get_threshold()
    try:
        gc.set_threshold(usual, 9, 8)
        spec = DerivativeSpec((types.float64,), ("active",))
        with pytest.raises(KeyError, match="refused"):
            module.compile_derivative(njit(lambda x: x), spec)
        assert gc.get_threshold() == (usual, 9, 8)
    finally:
        gc.set_threshold(*before)
    assert seen == [(meanwhile, 9, 8)]


BACKWARDS = """
import numpy as np
from numba import njit
import activerules as ar

@njit
def f(a, b):
    w = np.tanh(a * a)
    b[0] = a[0, 0]
    for _ in range(2):
        for i in range(len(b)):
            w[i][:] = np.tanh(w[i][::-1] + w[i])
    return w.sum() + b.sum()

a, b = np.random.default_rng(0).normal(size=(2, 3)), np.zeros(2)
v = np.ones_like(a)
along, h = ar.hvp(f)(a.copy(), v, b.copy()), 1e-5
below, above = (ar.grad(f)(a + step * v, b.copy()) for step in (-h, h))
np.testing.assert_allclose(along, (above - below) / (2 * h), rtol=1e-6, atol=1e-8)
"""


def test_llvm_does_not_vectorise_what_it_makes_small():
    """Two arrays read backwards in a loop of a conservative version: its cost models disagree."""
    subprocess.run([sys.executable, "-c", BACKWARDS], check=True)
