"""The engine's classes to the text LLVM reads.

Needs       a `Module` (or a part of one), however made
Gives       its text; LLVM parses it, and our parser gives an equal module
Invariants  R1  parse(print(m)) == m; `tests/ir/llvm/structure.py` states what equal means

Each block prints its label, the entry block too, so that a function with numbered values stays
valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from activerules.ir.llvm.model import (
    BINARY_FLOAT,
    BINARY_INT,
    CASTS,
    Function,
    Instruction,
    Module,
    Value,
)


def print_module(module: Module) -> str:
    """The text of a whole module."""
    parts = list(module.header)
    parts += [f"%{name} = type {body or 'opaque'}" for name, body in module.types.items()]
    parts += module.globals.values()
    for function in module.functions.values():
        parts += ["", print_function(function)]
    return "\n".join([*parts, "", *module.trailer, ""])


def print_function(function: Function) -> str:
    """The text of a definition or declaration, without a final newline."""
    parameters = [
        " ".join(filter(None, (str(a.type), a.attributes, a.name and f"%{a.name}")))
        for a in function.arguments
    ]
    if function.vararg:
        parameters.append("...")
    keyword = "declare" if function.is_declaration else "define"
    head = f"@{function.name}({', '.join(parameters)})"
    head = " ".join(
        filter(None, (keyword, function.prefix, str(function.result), head, function.suffix))
    )
    if function.is_declaration:
        return head
    lines = [head + " {"]
    for block in function.blocks:
        lines.append(f"{block.name}:")
        lines += ["  " + print_instruction(i) for i in block.instructions]
    return "\n".join([*lines, "}"])


def print_instruction(i: Instruction) -> str:
    """The text of one instruction, without indentation.

    `KeyError` names an opcode that cannot be printed.
    """
    attributes = i.attributes
    text = attributes.get("verbatim") or _PRINTERS[i.opcode](i, attributes)
    if i.name is not None:
        text = f"%{i.name} = {text}"
    metadata = attributes.get("metadata")
    return text + metadata if metadata else text


def _typed(value: Value) -> str:
    return f"{value.type} {value.ref}"


def _list(values: list[Value]) -> str:
    return ", ".join([f"{v.type} {v.ref}" for v in values])


def _opcode(i: Instruction) -> str:
    return f"{i.opcode} {' '.join(i.flags)}" if i.flags else i.opcode


def _binary(i: Instruction, _: dict[str, Any]) -> str:
    x, y = i.operands
    return f"{_opcode(i)} {x.type} {x.ref}, {y.ref}"


def _cast(i: Instruction, _: dict[str, Any]) -> str:
    return f"{_opcode(i)} {_typed(i.operands[0])} to {i.type}"


def _compare(i: Instruction, attributes: dict[str, Any]) -> str:
    x, y = i.operands
    return f"{_opcode(i)} {attributes['predicate']} {x.type} {x.ref}, {y.ref}"


def _operands(i: Instruction, _: dict[str, Any]) -> str:
    return f"{_opcode(i)} {_list(i.operands)}" if i.operands else i.opcode


def _memory(what: str, attributes: dict[str, Any], opcode: str) -> str:
    atomic, align = attributes.get("atomic"), attributes.get("align")
    marks = (" atomic" if atomic else "") + (" volatile" if attributes.get("volatile") else "")
    ordering = f" {atomic}" if atomic else ""
    return f"{opcode}{marks} {what}{ordering}{f', align {align}' if align else ''}"


def _load(i: Instruction, attributes: dict[str, Any]) -> str:
    return _memory(f"{i.type}, {_typed(i.operands[0])}", attributes, "load")


def _store(i: Instruction, attributes: dict[str, Any]) -> str:
    return _memory(_list(i.operands), attributes, "store")


def _alloca(i: Instruction, attributes: dict[str, Any]) -> str:
    mark = attributes.get("inalloca")
    parts = [str(attributes["allocated"]), *map(_typed, i.operands)]
    if "align" in attributes:
        parts.append(f"align {attributes['align']}")
    if "address_space" in attributes:
        parts.append(f"addrspace({attributes['address_space']})")
    return f"alloca {mark + ' ' if mark else ''}{', '.join(parts)}"


def _getelementptr(i: Instruction, attributes: dict[str, Any]) -> str:
    return f"{_opcode(i)} {attributes['source']}, {_list(i.operands)}"


def _phi(i: Instruction, _: dict[str, Any]) -> str:
    edges = [f"[ {v.ref}, %{b.name} ]" for v, b in zip(i.operands, i.blocks, strict=True)]
    return f"{_opcode(i)} {i.type} {', '.join(edges)}"


def _branch(i: Instruction, _: dict[str, Any]) -> str:
    return "br " + ", ".join([*map(_typed, i.operands), *(f"label %{b.name}" for b in i.blocks)])


def _switch(i: Instruction, _: dict[str, Any]) -> str:
    value, *cases = i.operands
    default, *targets = i.blocks
    edges = " ".join(f"{_typed(c)}, label %{b.name}" for c, b in zip(cases, targets, strict=True))
    return f"switch {_typed(value)}, label %{default.name} [ {edges} ]"


def _ret(i: Instruction, _: dict[str, Any]) -> str:
    return f"ret {_typed(i.operands[0])}" if i.operands else "ret void"


def _value_access(i: Instruction, attributes: dict[str, Any]) -> str:
    return f"{i.opcode} {_list(i.operands)}, {', '.join(map(str, attributes['indices']))}"


def _call(i: Instruction, attributes: dict[str, Any]) -> str:
    marks = attributes.get("argument_attributes")
    if marks:
        arguments = ", ".join(
            f"{v.type} {m} {v.ref}" if m else f"{v.type} {v.ref}"
            for v, m in zip(i.operands, marks, strict=True)
        )
    else:
        arguments = _list(i.operands)
    get = attributes.get
    words = (
        _opcode(i),
        get("cconv"),
        get("return_attributes"),
        str(get("function_type") or i.type),
    )
    assert i.callee is not None
    text = f"{get('tail') or ''}{' '.join(filter(None, words))} {i.callee.ref}({arguments})"
    last = get("call_attributes")
    return f"{text} {last}" if last else text


def _invoke(i: Instruction, attributes: dict[str, Any]) -> str:
    normal, unwind = i.blocks
    return f"{_call(i, attributes)} to label %{normal.name} unwind label %{unwind.name}"


_PRINTERS: dict[str, Callable[[Instruction, dict[str, Any]], str]] = {
    **dict.fromkeys(BINARY_FLOAT | BINARY_INT, _binary),
    **dict.fromkeys(CASTS, _cast),
    **dict.fromkeys(("icmp", "fcmp"), _compare),
    **dict.fromkeys(
        "fneg freeze select unreachable extractelement insertelement shufflevector".split(),
        _operands,
    ),
    **dict.fromkeys(("extractvalue", "insertvalue"), _value_access),
    "load": _load,
    "store": _store,
    "alloca": _alloca,
    "getelementptr": _getelementptr,
    "phi": _phi,
    "br": _branch,
    "switch": _switch,
    "ret": _ret,
    "call": _call,
    "invoke": _invoke,
}
