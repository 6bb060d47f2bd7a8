"""Comparisons that were hidden from LLVM (`ir/text/equalities`) become comparisons again.

Needs       the parsed module after LLVM's passes
Gives       `restore_comparisons(module)`
Invariants  Q2  a restored comparison is the hidden one, except for its fast-math flags
"""

from __future__ import annotations

from activerules.ir.llvm.model import Module
from activerules.ir.text.equalities import HIDDEN_COMPARISON


def restore_comparisons(module: Module) -> None:
    """Replace the calls by the comparisons that they hid, in place."""
    for function in module.defined():
        for i in function.instructions():
            name = i.callee_name if i.opcode == "call" else None
            if name is not None and name.startswith(HIDDEN_COMPARISON):
                i.opcode, i.callee = "fcmp", None
                i.attributes = {
                    "predicate": name.removeprefix(HIDDEN_COMPARISON).split(".")[0],
                    **{k: v for k, v in i.attributes.items() if k in {"metadata", "location"}},
                }
