"""Exceptions that are caught: the functions that go on after a handler.

Needs       the text of a module as LLVM prints it
Gives       `catching(text)`: the functions with a path from a landing pad that catches something to
            a return
Invariants  H1  in all other functions an exception, once thrown, propagates or ends the program
                (`catch (...) { …; throw; }`, functions that are `noexcept`)
"""

from __future__ import annotations

import re

from activerules.ir.llvm.closure import closure

DEFINITION = re.compile(
    r"^define [^@\n]*@(?P<name>\"[^\"]*\"|[-\w$.]+)\([^\n]*\n(?P<body>.*?)^}$",
    re.MULTILINE | re.DOTALL,
)
_BLOCK = re.compile(r"^(?P<label>\"[^\"]*\"|[-\w$.]+):", re.MULTILINE)
_TARGET = re.compile(r"label %(\"[^\"]*\"|[-\w$.]+)")
_CATCHES = re.compile(r"^ +catch (?:ptr|\[)|catchswitch", re.MULTILINE)
_RETURNS = re.compile(r"^  ret ", re.MULTILINE)


def catching(text: str) -> set[str]:
    """The names of the functions that go on after an exception handler."""
    if not _CATCHES.search(text):
        return set()
    return {
        definition["name"].strip('"')
        for definition in DEFINITION.finditer(text)
        if _CATCHES.search(definition["body"]) and _comes_back(definition["body"])
    }


def _comes_back(body: str) -> bool:
    starts = list(_BLOCK.finditer(body))
    ends = [*(start.start() for start in starts[1:]), len(body)]
    blocks = {
        start["label"]: body[start.end() : end] for start, end in zip(starts, ends, strict=True)
    }
    handlers = [label for label, block in blocks.items() if _CATCHES.search(block)]
    reached = closure(handlers, lambda label: blocks.keys() & _TARGET.findall(blocks[label]))
    return any(_RETURNS.search(blocks[label]) for label in reached)
