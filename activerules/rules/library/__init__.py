"""The rules that come with activerules; importing this package defines them."""

from activerules.rules.library import inactive, linalg, linalg_forward, random

__all__ = ["inactive", "linalg", "linalg_forward", "random"]
