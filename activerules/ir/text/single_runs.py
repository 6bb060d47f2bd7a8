"""Loops of one iteration become straight code.

Needs       the text of a module before LLVM's passes
Gives       `as_straight_code`: without the loops that count from 0 to 1
Invariants  L1  the same instructions run, in the same order
            L2  each keeps its location

Numba calls a ufunc of numbers, such as `np.sin(x)`, in a loop over one element. LLVM would move the
call out of it, and drop its location.
"""

from __future__ import annotations

import re

from activerules.ir.text.handlers import DEFINITION

_LOOP = re.compile(
    r"^(?P<head>[-\w$.]+):[^\n]*\n"
    r"  (?P<index>%\S+) = phi i64 (?P<first>\[ 0, %\S+ \]),"
    r" \[ (?P<next>%\S+), %(?P<latch>[-\w$.]+) \][^\n]*\n"
    r"  (?P<test>%\S+) = icmp slt i64 (?P=index), 1\b[^\n]*\n"
    r"  br i1 (?P=test), label %\S+, label %(?P<end>[-\w$.]+)",
    re.MULTILINE,
)


_STEP = re.compile(r"(?P<next>%\S+) = add (?:nuw )?(?:nsw )?i64 (?P<index>%\S+), 1\b")


def as_straight_code(text: str) -> str:
    """The text with loops of one iteration replaced by their bodies."""
    if not _LOOP.search(text):
        return text
    return DEFINITION.sub(lambda function: _straight(function[0]), text)


def _straight(function: str) -> str:
    for loop in reversed(list(_LOOP.finditer(function))):
        start, stop = _block(function, loop["latch"], loop.end())
        *_, last = function[start:stop].split("\n")
        back, _, location = last.partition(",")
        steps = {step.groups() for step in _STEP.finditer(function, start, stop)}
        if back != f"  br label %{loop['head']}" or loop.group("next", "index") not in steps:
            continue
        first, _ = _block(function, loop["end"], loop.end())
        if not first or " = phi " in function[first : function.find("\n", first)]:
            continue
        once = loop[0].replace(f", [ {loop['next']}, %{loop['latch']} ]", "", 1)
        ending = f"  br label %{loop['end']}" + f",{location}" * bool(location)
        between = function[loop.end() : stop - len(last)]
        function = function[: loop.start()] + once + between + ending + function[stop:]
    return function


def _block(function: str, label: str, start: int) -> tuple[int, int]:
    """Where the instructions of a block begin and end; it is searched from `start` on."""
    at = function.find(f"\n{label}:", start)
    if at < 0:
        return 0, 0
    first = function.find("\n", at + 1) + 1
    return first, min(k for k in (function.find(e, first) for e in ("\n\n", "\n}")) if k >= 0)
