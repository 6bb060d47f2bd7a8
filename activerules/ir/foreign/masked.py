"""Loads and stores of some lanes of a vector become branches around loads and stores of scalars.

Needs       the text of a module as LLVM prints it
Gives       the text in which calls of `llvm.masked.load`, `.store`, `.gather` and `.scatter` go to
            functions the text then defines; LLVM inlines them, and drops the branches where the
            mask is known
Invariants  K1  memory of lanes that are masked is not touched
            K2  lanes are written in order: of two lanes with the same address, the last one counts

The vectorised code of `if (x[i] > 0) y[i] = x[i];` becomes scalar code again.
"""

from __future__ import annotations

import re
from math import gcd

_CALL = re.compile(
    r"call (?P<result>[^@\n]*)@llvm\.masked\.(?P<kind>load|store|gather|scatter)"
    r"\.v(?P<lanes>\d+)(?P<element>\w+)\.[\w.]+\((?P<arguments>[^\n]*?)\)(?=,? !|\s*$|\s#)",
    re.MULTILINE,
)
# LLVM 20 passes the alignment as an operand before the mask, LLVM 22 as an attribute.
_ALIGNED = re.compile(r"\balign (\d+)|, i32 (\d+)(?=, <\d+ x i1>)")
_OPERAND = re.compile(r", i32 \d+(?=, <\d+ x i1>)")
_ELEMENTS = {"f64": "double", "f32": "float", "f16": "half", "bf16": "bfloat", "p0": "ptr"}
_WITH_RESULT = {"load", "gather"}


def lane_by_lane(text: str) -> str:
    """The text with masked loads and stores replaced by branches around scalar ones."""
    if "@llvm.masked." not in text:
        return text
    definitions: dict[str, str] = {}

    def instead(call: re.Match[str]) -> str:
        kind, lanes, element = call["kind"], int(call["lanes"]), call["element"]
        aligned = _ALIGNED.search(call["arguments"])
        alignment = int(aligned[1] or aligned[2]) if aligned else 1
        if kind in {"load", "store"}:
            alignment = gcd(alignment, _size(element))  # that of all lanes, not of the first
        name = f"activerules.masked.{kind}.v{lanes}{element}.a{alignment}"
        definitions[name] = _definition(
            name, kind, lanes, _ELEMENTS.get(element, element), alignment
        )
        return f"call {call['result']}@{name}({_OPERAND.sub('', call['arguments'])})"

    text = _CALL.sub(instead, text)
    return "\n".join(
        [text, *(d for name, d in definitions.items() if f"@{name}" not in _defined(text))]
    )


def _size(element: str) -> int:
    """The bytes of a lane in memory: 8 for `f64` and `p0`."""
    return 8 if element == "p0" else int(re.sub(r"\D+", "", element)) // 8 or 1


def _defined(text: str) -> set[str]:
    """The functions that an earlier derivative in the module has defined."""
    return set(re.findall(r"^define [^@\n]*(@activerules\.masked\.[\w.]+)", text, re.MULTILINE))


def _definition(name: str, kind: str, lanes: int, t: str, alignment: int) -> str:
    vector = f"<{lanes} x {t}>"
    pointers = "ptr" if kind in {"load", "store"} else f"<{lanes} x ptr>"
    if kind in _WITH_RESULT:
        signature = f"{vector} @{name}({pointers} %at, <{lanes} x i1> %mask, {vector} %v0)"
    else:
        signature = f"void @{name}({vector} %value, {pointers} %at, <{lanes} x i1> %mask)"
    lines = [f"define internal {signature} alwaysinline {{", "entry:", "  br label %lane0"]
    for k in range(lanes):
        lines += _lane(k, kind, vector, t, alignment, lanes)
    lines += [f"lane{lanes}:", *_merged(lanes, kind, vector)]
    lines.append(f"  ret {vector} %v{lanes}" if kind in _WITH_RESULT else "  ret void")
    return "\n".join([*lines, "}", ""])


def _merged(k: int, kind: str, vector: str) -> list[str]:
    """The lanes up to the one before `k`, whichever branch was taken."""
    if kind not in _WITH_RESULT or k == 0:
        return []
    before = k - 1
    return [f"  %v{k} = phi {vector} [ %v{before}, %lane{before} ], [ %w{before}, %do{before} ]"]


def _lane(k: int, kind: str, vector: str, t: str, alignment: int, lanes: int) -> list[str]:
    lines = [
        f"lane{k}:",
        *_merged(k, kind, vector),
        f"  %m{k} = extractelement <{lanes} x i1> %mask, i64 {k}",
        f"  br i1 %m{k}, label %do{k}, label %lane{k + 1}",
        f"do{k}:",
    ]
    if kind in {"load", "store"}:
        lines.append(f"  %p{k} = getelementptr {t}, ptr %at, i64 {k}")
    else:
        lines.append(f"  %p{k} = extractelement <{lanes} x ptr> %at, i64 {k}")
    if kind in _WITH_RESULT:
        lines += [
            f"  %x{k} = load {t}, ptr %p{k}, align {alignment}",
            f"  %w{k} = insertelement {vector} %v{k}, {t} %x{k}, i64 {k}",
        ]
    else:
        lines += [
            f"  %x{k} = extractelement {vector} %value, i64 {k}",
            f"  store {t} %x{k}, ptr %p{k}, align {alignment}",
        ]
    return [*lines, f"  br label %lane{k + 1}"]
