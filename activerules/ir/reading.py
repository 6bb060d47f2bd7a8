"""From normalised text to the module the analyses start from."""

from __future__ import annotations

from activerules.ir.model import Module
from activerules.ir.parser import parse_module
from activerules.ir.scalarise import scalarise


def read_module(text: str, function: str) -> Module:
    """Parse what `normalise(…, function)` gives, and take values with parts apart."""
    module = parse_module(text)
    scalarise(module, function if function in module.functions else f'"{function}"')
    return module
