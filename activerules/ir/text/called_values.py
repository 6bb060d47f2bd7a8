"""Calls of functions that are values: by name, where the module shows which functions they may be.

Needs       the text of an unoptimised module in which such a call is one of a declared function
            whose name begins with `CALL`, with the arguments and then the function's address. The
            module tests `KNOWN()` before it, and calls `FOREIGN()` wherever a value may be a
            function that it does not define
Gives       `with_called_values`: the module with definitions of these functions
Invariants  K1  an address is compared with each function of the same type whose address the module
                takes; if it is none of them, the status is that of an error
            K2  `KNOWN()` is true if the module defines all functions that are values in it
Cost        one search of the text without such calls
"""

from __future__ import annotations

import re

KNOWN = "activerules.values.known"
CALL = "activerules.values.call."
FOREIGN = "activerules.values.foreign"
_DECLARED = re.compile(rf"declare i32 @({re.escape(CALL)}\w+)\(([^)\n]*)\)[^\n]*\n")
_FLAGS = re.compile(rf"declare \w+ @({re.escape(KNOWN)}|{re.escape(FOREIGN)})\(\)[^\n]*\n")
_DEFINED = re.compile(r'^define [^@\n]*i32 @("[^"\n]+"|[-\w.$]+)\((.*)\)[^()\n]*\{$', re.MULTILINE)
_ADDRESS = re.compile(r'\bptr @("[^"\n]+"|[-\w.$]+)(?!\()')
_ERROR = "ret i32 -1"


def with_called_values(text: str, *, closed: bool) -> str:
    """`text` with definitions of the functions that call values.

    closed   no value comes from outside the module
    """
    flags, calls = set(_FLAGS.findall(text)), _DECLARED.findall(text)
    if not flags:
        return text
    text = _DECLARED.sub("", _FLAGS.sub("", text))
    known = str(closed and FOREIGN not in flags).lower()
    taken = set(_ADDRESS.findall(text))
    functions = {name: _types(args) for name, args in _DEFINED.findall(text) if name in taken}
    made = [
        f"define linkonce_odr i1 @{KNOWN}() alwaysinline {{\n  ret i1 {known}\n}}",
        f"define linkonce_odr void @{FOREIGN}() alwaysinline {{\n  ret void\n}}",
        *(_call(name, _types(parameters), functions) for name, parameters in calls),
    ]
    return "\n".join([text, *made, ""])


def _types(parameters: str) -> list[str]:
    return [each.split()[0] for each in parameters.split(", ")]


def _call(name: str, types: list[str], functions: dict[str, list[str]]) -> str:
    """The definition of one function (K1)."""
    *arguments, _ = types
    fitting = [each for each, own in functions.items() if own == arguments]
    declared = ", ".join(f"{ty} %a{k}" for k, ty in enumerate(types))
    passed = ", ".join(f"{ty} %a{k}" for k, ty in enumerate(arguments))
    lines = [f"define linkonce_odr i32 @{name}({declared}) alwaysinline {{", "  br label %test0"]
    for k, function in enumerate(fitting):
        lines += [
            f"test{k}:",
            f"  %is{k} = icmp eq ptr %a{len(arguments)}, @{function}",
            f"  br i1 %is{k}, label %call{k}, label %test{k + 1}",
            f"call{k}:",
            f"  %status{k} = call i32 @{function}({passed})",
            f"  ret i32 %status{k}",
        ]
    return "\n".join([*lines, f"test{len(fitting)}:", f"  {_ERROR}", "}"])
