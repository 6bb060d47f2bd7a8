"""How the engine says no: an error that carries the instruction and its place in the source."""

from __future__ import annotations

from collections.abc import Sequence

from activerules.errors import ActiverulesError, UnsupportedIR
from activerules.ir.model import Instruction
from activerules.ir.printer import print_instruction


def refusal(
    i: Instruction,
    what: str,
    why: str,
    instead: Sequence[str],
    kind: type[ActiverulesError] = UnsupportedIR,
) -> ActiverulesError:
    """The error to raise about instruction `i`."""
    place = ("at the instruction", print_instruction(i).strip(), i.attributes.get("location", ""))
    error = kind(what=what, where=[place], why=why, instead=list(instead))
    error.instruction = i
    return error
