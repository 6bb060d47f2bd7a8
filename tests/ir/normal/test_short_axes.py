"""Subscripts along axes that may have length one are plain where the loop has the axis' length."""

import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.short_axes import plain_subscripts

PROGRAM = """
define double @f(ptr %a, i64 %n, i64 %m) {{
entry:
  %nonempty = icmp sgt i64 %n, 0
  %longer = icmp {asked} i64 {length}, {limit}
  br i1 %nonempty, label %head, label %end
head:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %total = phi double [ 0.0, %entry ], [ %sum, %latch ]
  %k = select i1 %longer, i64 {arms}
  %p = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %p
  %sum = fadd double %total, %x
  {leave}
latch:
  %next = add {flags} i64 %i, 1
  %done = icmp {ends} i64 %next, %n
  br i1 %done, label %{then}, label %{otherwise}
end:
  %result = phi double [ 0.0, %entry ], [ %sum, %latch ]{early}
  ret double %result
}}
"""
PLAIN = {
    "asked": "ugt",
    "length": "%n",
    "limit": "1",
    "arms": "%i, i64 0",
    "leave": "br label %latch",
    "flags": "nuw nsw",
    "ends": "eq",
    "then": "end",
    "otherwise": "head",
    "early": "",
}
LEFT = {
    "leave": "%stop = fcmp ogt double %sum, 9.0\n  br i1 %stop, label %end, label %latch",
    "early": ", [ %sum, %head ]",
}


def subscript(**changes):
    """The last operand of the address, after the exchange."""
    module = parse_module(PROGRAM.format(**{**PLAIN, **changes}))
    plain_subscripts(module)
    return next(i for i in module.functions["f"].instructions() if i.name == "p").operands[1].name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"asked": "eq", "arms": "0, i64 %i"},
        {"asked": "slt", "limit": "2", "arms": "0, i64 %i"},
        {"ends": "slt", "then": "head", "otherwise": "end"},
        {"ends": "ne", "then": "head", "otherwise": "end"},
    ],
)
def test_b1_subscript_is_plain_where_the_loop_has_the_length(changes):
    assert subscript(**changes) == "i"


@pytest.mark.parametrize(
    "changes",
    [
        {"length": "%m"},
        {"limit": "2"},
        {"asked": "ult", "limit": "1"},
        {"arms": "0, i64 %i"},
        {"arms": "%i, i64 1"},
        {"arms": "%m, i64 0"},
        {"flags": "nuw"},
        {"ends": "ult"},
        {"then": "head", "otherwise": "end"},
        LEFT,
    ],
)
def test_b1_anything_else_stays(changes):
    assert subscript(**changes) == "k"
