"""Derivatives that may differ in the last digits: what `Mode.fast` allows in generated code.

Needs       generated functions, before they are printed
Gives       `reassociate`: lets LLVM reorder sums and products
            `vectorise`: tells LLVM the vector forms of functions that are called

LLVM looks for a vector form in the attribute "vector-function-abi-variant" of a call, and among the
functions of the module: the declarations are kept by `llvm.compiler.used`.
Source      LLVM language reference, "Call Site Attributes"; the x86 vector function ABI
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from activerules.ir.derivatives.table import function_of
from activerules.ir.llvm.model import Function, GlobalRef
from activerules.ir.llvm.types import DOUBLE

_REORDERED = {"fadd", "fsub", "fmul"}
_LANES = 4


def reassociate(functions: Iterable[Function]) -> None:
    """Allow LLVM to reorder sums and products."""
    for function in functions:
        for i in function.instructions():
            if i.opcode in _REORDERED and not {"reassoc", "fast"} & set(i.flags):
                i.flags = (*i.flags, "reassoc")


def vectorise(
    functions: Iterable[Function], forms: Mapping[str, str], declarations: dict[str, str]
) -> None:
    """Declare the vector forms of functions that are called.

    forms   per function (`sin`), the symbol that computes it for four doubles
    """
    used: dict[str, None] = {}
    for function in functions:
        for i in function.instructions():
            if i.opcode != "call":
                continue
            name = function_of(i.callee_name or "") or ""
            if name not in forms or {i.type, *(o.type for o in i.operands)} != {DOUBLE}:
                continue
            count = len(i.operands)
            symbol = forms[name]
            variant = f"_ZGV_LLVM_N{_LANES}{'v' * count}_{name}({symbol})"
            i.callee = GlobalRef(name)
            i.attributes["call_attributes"] = (
                f'memory(none) nounwind willreturn "vector-function-abi-variant"="{variant}"'
            )
            declarations[name] = f"declare double @{name}({', '.join(['double'] * count)})"
            vector = f"<{_LANES} x double>"
            parameters = ", ".join([vector] * count)
            declarations[symbol] = f"declare {vector} @{symbol}({parameters})"
            used[symbol] = None
    if used:
        kept = ", ".join(f"ptr @{symbol}" for symbol in used)
        declarations["llvm.compiler.used"] = (
            f"@llvm.compiler.used = appending global [{len(used)} x ptr] [{kept}], "
            'section "llvm.metadata"'
        )
