"""The common base of our passes over Numba's own IR."""

from __future__ import annotations

from numba.core.compiler_machinery import FunctionPass


class UntypedPass(FunctionPass):
    """A pass that needs no types; Numba declares the constructor of a pass abstract."""

    def __init__(self) -> None:
        super().__init__()
