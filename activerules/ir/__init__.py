"""The engine: from LLVM IR to the LLVM IR of its derivative. Needs no Numba.

`differentiate` adds the derivative of a function to its module; `explain` prints the plan of it.
"""

from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.foreign.explain import explain

__all__ = ["differentiate", "explain"]


def __dir__() -> list[str]:
    """The interface alone: what else is here is for the package itself."""
    return sorted(__all__)
