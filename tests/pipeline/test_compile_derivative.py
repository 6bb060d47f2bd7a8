import gc

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
