"""The engine: from LLVM IR to the LLVM IR of its derivative. Needs no Numba.

`differentiate` adds the derivative of a function to its module; `explain` prints the plan of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from activerules.ir.foreign.differentiate import differentiate
    from activerules.ir.foreign.explain import explain

__all__ = ["differentiate", "explain"]


def __getattr__(name: str) -> Any:
    """Load a function of the interface at its first use: who needs a part of the engine imports its
    module alone.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.foreign.{name}"), name)


def __dir__() -> list[str]:
    """The public names only."""
    return sorted(__all__)
