"""The rules that come with activerules; importing this package defines them."""

from activerules.rules.library import (
    decompositions,
    eigen,
    inactive,
    leastsquares,
    linalg,
    linalg_forward,
    random,
    singular_values,
)

__all__ = [
    "decompositions",
    "eigen",
    "inactive",
    "leastsquares",
    "linalg",
    "linalg_forward",
    "random",
    "singular_values",
]
