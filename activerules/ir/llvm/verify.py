"""LLVM's verdict on a text."""

from __future__ import annotations

from typing import Any

from activerules.errors import UnsupportedIR


def verified(text: str) -> str:
    """`text`, after LLVM has parsed and verified it.

    A failure is a bug of the engine and says so.
    """
    from llvmlite import binding

    llvm: Any = binding  # not annotated
    try:
        llvm.parse_assembly(text).verify()
    except RuntimeError as error:
        raise UnsupportedIR(
            what="the engine generated IR that LLVM does not accept",
            why=str(error).strip(),
            instead=["please report this with the program: it is a bug of activerules"],
        ) from error
    return text
