"""What users call: a module per name they type, each from Python and inside `@njit`.

Whichever of them is imported, derivatives find their compiler: this package sets it.
"""

from __future__ import annotations

from typing import Any

from activerules.numba_ext.calls.intrinsics import use_compiler
from activerules.numba_ext.target.derivative import CompiledDerivative, DerivativeSpec


def _compile(function: Any, spec: DerivativeSpec) -> CompiledDerivative:
    """Call `compile_derivative`, which is imported with the engine for the first derivative."""
    from activerules.pipeline.compile_derivative import compile_derivative

    return compile_derivative(function, spec)


use_compiler(_compile)
