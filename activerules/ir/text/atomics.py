"""Atomic updates of integers become calls.

Needs       the text of a module before LLVM's passes
Gives       `as_calls`: each `atomicrmw` of an integer is a call of a function that does just that
Invariants  A1  the update stays atomic: threads that share a counter do not lose counts

The engine reads no atomic instruction, but it can call a function into which no active data flows:
a progress bar's counter, for example. Updates of floats stay as they are, and are refused.
"""

from __future__ import annotations

import re

from activerules.ir.normal.effects import ATOMIC_UPDATES
from activerules.ir.text.handlers import DEFINITION

_UPDATE = re.compile(
    r"(?P<result>%\S+ = )atomicrmw (?P<operation>\w+) (?P<address>ptr [%@][^\s,(]+),"
    r" (?P<type>i\d+) (?P<value>[^\s,]+) (?P<order>\w+)(?P<align>, align \d+)?"
)


def as_calls(text: str) -> str:
    """The text with the atomic updates of integers in functions of their own."""
    if " = atomicrmw " not in text:
        return text
    definitions: dict[str, str] = {}

    def call(update: re.Match[str]) -> str:
        kind = update["type"]
        name = ATOMIC_UPDATES + ".".join(update.group("operation", "type", "order"))
        name += (update["align"] or "").replace(", align ", ".")
        definitions[name] = (
            f"define linkonce_odr {kind} @{name}(ptr %p, {kind} %v) noinline nounwind {{\n"
            f"  %old = atomicrmw {update['operation']} ptr %p, {kind} %v {update['order']}"
            f"{update['align'] or ''}\n  ret {kind} %old\n}}\n"
        )
        arguments = f"{update['address']}, {kind} {update['value']}"
        return f"{update['result']}call {kind} @{name}({arguments})"

    def in_function(function: re.Match[str]) -> str:
        own = function["name"].startswith(ATOMIC_UPDATES)
        return function[0] if own else _UPDATE.sub(call, function[0])

    changed = DEFINITION.sub(in_function, text)
    missing = [d for name, d in definitions.items() if f" @{name}(ptr %p, " not in text]
    return "\n".join([changed, *missing])
