"""Packages that are loaded if they are installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from activerules.errors import MissingExtra


def load(module: str, extra: str, why: str = "") -> Any:
    """Import a module that an extra installs; `MissingExtra` if its package is not there."""
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise MissingExtra(
            f"{package} is not installed",
            why=why or f"activerules.interop.{extra} is a bridge to it",
            instead=[f'pip install "activerules[{extra}]"'],
        )
    return import_module(module)
