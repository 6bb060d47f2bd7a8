"""Positions: innermost first, but the user's file before Numba's."""

from __future__ import annotations

import os

import pytest

from activerules.ir.llvm.location import Locator
from activerules.ir.llvm.parser import parse_module
from corpus import captured

TEXT = """
define double @f(double %x) !dbg !5 {
entry:
  %plain = fadd double %x, 1.0, !dbg !10
  %lexical = fadd double %x, 1.0, !tbaa !0, !dbg !11
  %inlined = fadd double %x, 1.0, !dbg !12
  %none = fadd double %x, 1.0
  %hidden = fadd double %x, 1.0, !dbg !14
  ret double %none
}

define double @g(double %x) {
entry:
  ret double %x
}

!0 = !{}
!1 = !DIFile(filename: "user.py", directory: "/home/me")
!2 = !DIFile(filename: "arraymath.py", directory: "/lib/numba/np")
!5 = distinct !DISubprogram(name: "f", scope: !1, file: !1, line: 3, unit: !7)
!6 = distinct !DISubprogram(name: "sum, of (all)", scope: !2, file: !2, line: 90, unit: !7)
!7 = distinct !DICompileUnit(language: DW_LANG_C, file: !1)
!8 = distinct !DILexicalBlock(scope: !5, file: !1, line: 4)
!10 = !DILocation(line: 12, column: 1, scope: !5)
!11 = !DILocation(line: 13, scope: !8)
!12 = !DILocation(line: 99, column: 5, scope: !6, inlinedAt: !13)
!13 = distinct !DILocation(line: 14, column: 1, scope: !8)
!14 = !DILocation(line: 99, column: 5, scope: !6)
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "/home/me/user.py:12"),
        ("lexical", "/home/me/user.py:13"),
        ("inlined", "/home/me/user.py:14"),
        ("none", "/home/me/user.py:3"),
        ("hidden", "/lib/numba/np/arraymath.py:99"),
    ],
)
def test_positions(name, expected):
    module = parse_module(TEXT)
    locator = Locator(module, hidden=["/lib/numba/"])
    (instruction,) = (i for i in module.functions["f"].instructions() if i.name == name)
    assert locator.of(instruction) == expected


def test_nothing_hidden_gives_the_innermost():
    module = parse_module(TEXT)
    inlined = module.functions["f"].entry.instructions[2]
    assert Locator(module, hidden=()).of(inlined) == "/lib/numba/np/arraymath.py:99"


def test_no_position_at_all():
    module = parse_module(TEXT)
    assert Locator(module).of(module.functions["g"].entry.terminator) == ""


def test_relative_to_the_working_directory(monkeypatch):
    module = parse_module(TEXT)
    monkeypatch.setattr(os, "getcwd", lambda: "/home")
    locator = Locator(module, hidden=["/lib/numba/"])
    assert locator.of(module.functions["f"].entry.instructions[0]) == "me/user.py:12"


def test_captured_functions_have_the_lines_of_their_file():
    found = captured("loop_sum")
    module = parse_module(found.text)
    locator = Locator(module)
    file, first = found.location.rsplit(":", 1)
    lines = set()
    for i in module.functions[found.symbol].instructions():
        if i.opcode in ("fadd", "fmul") and i.type.is_float:
            where, line = locator.of(i).rsplit(":", 1)
            assert os.path.abspath(where) == file
            lines.add(int(line) - int(first))
    # decorator, def, total = 0.0, for, total += x * x
    assert lines == {4}
