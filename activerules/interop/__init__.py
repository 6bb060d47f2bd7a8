"""Bridges to other packages: functions with derivatives as those packages expect them.

`numba_stats` and `rocket_fft` define rules for those packages when they are imported.

Each needs the extra of its name, `pip install "activerules[torch]"`, and is loaded on first use:
`from activerules.interop import torch`. Without it, `MissingExtra`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import activerules

dir(activerules)  # loads the interface, and the rules of other packages

_BRIDGES = ("jax", "numba_stats", "pytensor", "rocket_fft", "scipy", "torch")


def __getattr__(name: str) -> Any:
    """Load a bridge."""
    if name not in _BRIDGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """The names of the bridges."""
    return sorted(_BRIDGES)
