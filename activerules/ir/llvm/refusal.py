"""Refusals of the engine: errors with the instruction and its position in the source."""

from __future__ import annotations

import re
from collections.abc import Sequence

from activerules.errors import ActiverulesError, UnsupportedIR
from activerules.ir.llvm.model import Instruction
from activerules.ir.llvm.names import plain_name
from activerules.ir.llvm.printer import print_instruction

MOST_SHOWN = 100

_METADATA = re.compile(r",? ?!\w+ !\d+.*$")
_MANGLED = re.compile(r'"_Z[^"]*"|\b_Z\w+')


def refusal(
    i: Instruction,
    what: str,
    why: str,
    instead: Sequence[str],
    kind: type[ActiverulesError] = UnsupportedIR,
) -> ActiverulesError:
    """The error to raise about instruction `i`."""
    entry = ("at the instruction", shown(i), i.attributes.get("location", ""))
    error = kind(what=what, where=[entry], why=why, instead=list(instead))
    error.instruction = i
    return error


def shown(i: Instruction) -> str:
    """The text of an instruction for a reader: no metadata, plain names, not more than a line."""
    text = _METADATA.sub("", print_instruction(i).strip())
    text = _MANGLED.sub(lambda match: plain_name(match[0]), text)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 2].rstrip() + " …"
