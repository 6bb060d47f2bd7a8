"""LLVM's verdict on a text."""

from __future__ import annotations

from typing import Any

from activerules.errors import UnsupportedIR


def parsed(text: str, what: str, *instead: str) -> Any:
    """The module that LLVM reads from a text; `UnsupportedIR` that says `what`, and LLVM's reason,
    if it does not accept the text.
    """
    from llvmlite import binding

    llvm: Any = binding  # not annotated
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise UnsupportedIR(what, why=str(error).strip(), instead=instead) from error
    return module


def verified(text: str) -> str:
    """`text`, after LLVM has parsed and verified it.

    A failure is a bug of the engine and says so.
    """
    advice = "please report this with the program: it is a bug of activerules"
    parsed(text, "the engine generated IR that LLVM does not accept", advice)
    return text
