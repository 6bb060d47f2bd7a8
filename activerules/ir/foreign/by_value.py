"""Structs passed by value in memory (`byval`) are copied explicitly.

Needs       the text of a module, as LLVM prints it; the function to differentiate
Gives       the text with the copy that `byval` implies as an alloca and a memcpy at the entry of
            the function that has the parameter. The function to differentiate keeps its name and
            signature; for any other, `<name>.own` is added, whose parameter is an ordinary pointer,
            and calls by name go there
Invariants  callers and callees see the same contents of each other's memory; no attribute of the
            copy is applied to the original
"""

from __future__ import annotations

import re

from activerules.ir.llvm.builder import Builder, Namer, suffixed
from activerules.ir.llvm.copying import copy_function
from activerules.ir.llvm.lexer import Cursor
from activerules.ir.llvm.model import Argument, Function, GlobalRef, Instruction, Module, Value
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.types import I1, I64, VOID, Type, size_of

_MEMCPY = "llvm.memcpy.p0.p0.i64"
_BY_VALUE = re.compile(r"\bbyval\((?P<type>(?:[^()]|\([^()]*\))*)\) ?")
_OF_COPY = re.compile(
    r"\b(?:noalias|writeonly|readnone)\b ?|\binitializes\((?:[^()]|\([^()]*\))*\) ?"
)
"""Attributes that hold for the copy but not for its source, which is read at the entry."""
_SHARED = re.compile(r"\bcomdat(?:\([^)]*\))? ?")
"""The marks by which linkers merge copies of a function; the new function must not have any."""
_ALIGNED = re.compile(r"\balign (\d+)")


def copies_at_entry(text: str, function: str) -> str:
    """The text without `byval`, where functions of the module have it; see the module docstring."""
    if "byval(" not in text:
        return text
    module = parse_module(text)
    copying = [f for f in module.defined() if any("byval(" in a.attributes for a in f.arguments)]
    own: dict[str, str] = {}
    for callee in copying:
        if callee.name.strip('"') == function:
            _copy_at_entry(callee, module)
            continue
        own_copy = copy_function(callee)
        own_copy.name = suffixed(callee.name, ".own")
        own_copy.suffix = _SHARED.sub("", own_copy.suffix)
        own[callee.name] = own_copy.name
        module.functions[own_copy.name] = own_copy
        _copy_at_entry(own_copy, module)
    for caller in module.defined():
        for call in caller.instructions():
            if call.callee_name in own:
                call.callee = GlobalRef(own[call.callee_name])
                marks = call.attributes["argument_attributes"]
                call.attributes["argument_attributes"] = [_of_pointer(m) for m in marks]
                call.attributes["tail"] = ""  # what is read now may be stack memory of the caller
    return print_module(module)


def _copy_at_entry(function: Function, module: Module) -> None:
    copies: list[Instruction] = []
    b = Builder(copies, Namer("own", function.local_names()))
    instead: dict[Value, Value] = {}
    for argument in function.arguments:
        passed = _BY_VALUE.search(argument.attributes)
        if passed is not None:
            instead[argument] = _copied(b, argument, Cursor(passed["type"], 0).type(), module)
            argument.attributes = _of_pointer(argument.attributes)
    for i in function.instructions():
        i.operands = [instead.get(o, o) for o in i.operands]
    function.entry.insert(0, *copies)


def _of_pointer(attributes: str) -> str:
    """The attributes that still hold for a parameter which is now an ordinary pointer."""
    known, passed = _BY_VALUE.subn("", attributes)
    return _OF_COPY.sub("", known) if passed else known


def _copied(b: Builder, argument: Argument, t: Type, module: Module) -> Value:
    aligned = _ALIGNED.search(argument.attributes)
    copy = b.alloca(t, align=int(aligned[1]) if aligned else None, hint="copy")
    size = b.const(I64, size_of(t, module.types))
    operands: list[Value] = [copy, argument, size, b.const(I1, 0)]
    b.call(_MEMCPY, VOID, operands)
    module.declare(_MEMCPY, VOID, operands)
    return copy
