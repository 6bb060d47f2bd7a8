"""Derivatives that may differ in the last digits: what `Mode.fast` allows in generated code.

Needs       generated functions, before they are printed
Gives       `reassociate`: lets LLVM reorder sums and products
            `vectorise`: declares the vector variants of the functions that are called
Invariants  V1  only sums, differences and products of floats may be reordered
            V2  a call keeps its function, and names only variants that are declared for its type;
                powers that LLVM turns into products stay as they are

LLVM looks for a vector form in the attribute "vector-function-abi-variant" of a call, and among the
functions of the module: the declarations are kept by `llvm.compiler.used`. It rewrites calls of
functions it knows, and the new call has no such attribute: `log` becomes an intrinsic where its
argument is positive or may not be NaN, `pow(2, x)` becomes `exp2(x)`. So the calls are of names of
our own, which are other symbols for the same functions.
Source      LLVM language reference, "Call Site Attributes"; the x86 vector function ABI
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from activerules.ir.derivatives.table import function_of
from activerules.ir.llvm.constants import number_of
from activerules.ir.llvm.model import Function, GlobalRef, Instruction, Value
from activerules.ir.llvm.names import SCALAR
from activerules.ir.llvm.types import DOUBLE, FLOAT, Type

_REORDERED = {"fadd", "fsub", "fmul"}
# LLVM knows these by their names, to compute both of one argument at once, and leaves them in place
_PAIRED = {"sin", "cos"}
_PRODUCTS = {-1.0, 0.0, 0.5, 1.0, 2.0}
_SUFFIX: dict[Type, str] = {DOUBLE: "", FLOAT: "f"}


def reassociate(functions: Iterable[Function]) -> None:
    """Allow LLVM to reorder sums and products."""
    for function in functions:
        for i in function.instructions():
            if i.opcode in _REORDERED and not {"reassoc", "fast"} & set(i.flags):
                i.flags = (*i.flags, "reassoc")


def vectorise(
    functions: Iterable[Function],
    forms: Mapping[str, Sequence[tuple[int, str]]],
    declarations: dict[str, str],
) -> None:
    """Declare the vector variants of functions that are called.

    forms   per function of the C library (`sin`, `sinf`), the symbols that compute it for several
            numbers, each with how many
    """
    used: dict[str, None] = {}
    for function in functions:
        for i in function.instructions():
            if i.opcode != "call" or i.type not in _SUFFIX:
                continue
            kind = function_of(i.callee_name or "") or ""
            name = kind + _SUFFIX[i.type]
            same = all(o.type == i.type for o in i.operands)
            if name not in forms or not same or _is_product(kind, i):
                continue
            count = len(i.operands)
            own = name if kind in _PAIRED else SCALAR + name
            variants = [f"_ZGV_LLVM_N{n}{'v' * count}_{own}({symbol})" for n, symbol in forms[name]]
            i.callee = GlobalRef(own)
            i.flags = ()
            i.attributes["call_attributes"] = (
                "memory(none) nounwind willreturn "
                f'"vector-function-abi-variant"="{",".join(variants)}"'
            )
            declarations[own] = f"declare {i.type} @{own}({', '.join([str(i.type)] * count)})"
            for lanes, symbol in forms[name]:
                vector = f"<{lanes} x {i.type}>"
                parameters = ", ".join([vector] * count)
                declarations[symbol] = f"declare {vector} @{symbol}({parameters})"
                used[symbol] = None
    if used:
        pointers = ", ".join(f"ptr @{symbol}" for symbol in used)
        declarations["llvm.compiler.used"] = (
            f"@llvm.compiler.used = appending global [{len(used)} x ptr] [{pointers}], "
            'section "llvm.metadata"'
        )


def _is_product(kind: str, call: Instruction) -> bool:
    """Whether LLVM replaces a power by a product, a quotient or a root, which it does for more
    exponents with fast-math flags.
    """
    exponent = _number(call.operands[1]) if kind == "pow" else None
    if exponent is None:
        return False
    return exponent in _PRODUCTS or (bool(call.flags) and (2 * exponent).is_integer())


def _number(value: Value) -> float | None:
    """The number LLVM will fold a value to: exponents of slopes are differences of literals."""
    if isinstance(value, Instruction) and value.opcode == "fsub":
        x, y = map(number_of, value.operands)
        return float(x - y) if x is not None and y is not None else None
    number = number_of(value)
    return None if number is None else float(number)
