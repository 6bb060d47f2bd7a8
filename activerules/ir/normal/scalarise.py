"""Aggregates and vectors that are used as values become scalars.

Needs       a module in normal form except for N7, the name of the function to differentiate
Gives       the module, changed in place: in each function, every value of a struct, array or vector
            type is replaced by its leaves, one scalar each. For a function of the module that takes
            or returns such values, `<name>.parts` is added, which takes the leaves one by one and
            returns through a pointer; calls go there
Invariants  S1  the signature of the function to differentiate stays
            S2  every scalar has the bits it had; memory is read and written leaf by leaf at the
                same addresses (undefined leaves are not written)
            S3  a function with a value that cannot be split (a bit cast between vectors of
                different shape, masked accesses) is left as it was; `normal_form` refuses it
"""

from __future__ import annotations

from activerules.ir.llvm.constant_parts import CannotSplit
from activerules.ir.llvm.copying import copy_function
from activerules.ir.llvm.model import Constant, Function, GlobalRef, Instruction, Module, Value
from activerules.ir.normal.leaves import PartsSignature, Scalariser, is_composite


def scalarise(module: Module, top: str) -> None:
    """Split the aggregates in all functions; see the module docstring."""
    split = {f.name for f in module.defined() if _is_split(f, top, module)}
    parts, scalarised = _split_functions(split, module)
    for function in module.defined():
        if not _has_composites(function, parts):
            continue
        try:
            changed = Scalariser(copy_function(function), module, parts, None).run()
        except CannotSplit:
            continue
        function.blocks = changed.blocks
        function.arguments = changed.arguments
        for block in function.blocks:
            block.parent = function
    module.functions.update({f.name: f for f in scalarised})


def _split_functions(
    names: set[str], module: Module
) -> tuple[dict[str, PartsSignature], list[Function]]:
    """The versions of functions that take scalars, and their signatures."""
    while True:
        scalarised: list[Function] = []
        failed: set[str] = set()
        signatures: dict[str, PartsSignature] = {}
        for name in sorted(names):
            try:
                signatures[name] = PartsSignature(module.functions[name], module)
            except CannotSplit:
                failed.add(name)
        for name, signature in signatures.items():
            try:
                copy = copy_function(module.functions[name])
                scalarised.append(Scalariser(copy, module, signatures, signature).run())
            except CannotSplit:
                failed.add(name)
        if not failed:
            return signatures, scalarised
        names = names - failed  # the others may have called it


def _is_split(function: Function, top: str, module: Module) -> bool:
    """Whether calls of a function go to a version of it that takes scalars."""
    if function.name == top or function.vararg:
        return False
    types = [function.result, *(a.type for a in function.arguments)]
    return any(map(is_composite, types)) and not _address_taken(function.name, module)


def _address_taken(name: str, module: Module) -> bool:
    def mentions(value: Value) -> bool:
        if isinstance(value, GlobalRef):
            return value.name == name
        return isinstance(value, Constant) and name in value.globals

    return any(f"@{name}" in line for line in module.globals.values()) or any(
        mentions(operand)
        for function in module.defined()
        for i in function.instructions()
        for operand in i.operands
    )


def _has_composites(function: Function, split: dict[str, PartsSignature]) -> bool:
    """Whether there are aggregates to split, other than results of calls."""
    for i in function.instructions():
        if i.opcode == "extractvalue":
            inner = i.operands[0]
            if isinstance(inner, Instruction) and inner.opcode in {"call", "landingpad"}:
                continue
        if i.opcode == "call" and i.callee_name in split:
            return True
        if i.opcode not in {"call", "landingpad"} and is_composite(i.type):
            return True
        if any(is_composite(o.type) for o in i.operands):
            return True
    return False
