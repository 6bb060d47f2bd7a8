"""Subscripts along axes that may have length one are plain where the loop has the axis' length."""

import ctypes
from itertools import product

import numpy as np
import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal.short_axes import ENTRY, ROW, SHORT_AXIS, plain_subscripts
from tests.ir.harness import compile_text

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
def test_b1_other_subscripts_stay(changes):
    assert subscript(**changes) == "k"


NEST = """
define double @f(ptr %a, i64 %n, i64 %m) {
entry:
  %longer = icmp ugt i64 %m, 1
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %next, %end.row ]
  %i8 = shl i64 %i, 3
  %i4 = shl nsw i64 %i, 2
  %odd = trunc i64 %i to i1
  %k = SUBSCRIPT
  br label %columns
columns:
  %j = phi i64 [ 0, %rows ], [ %next.j, %columns ]
  %l = select i1 %longer, i64 %j, i64 0
  %at = add i64 %k, %l
  %p = getelementptr double, ptr %a, i64 %at
  %x = load double, ptr %p
  %next.j = add nuw nsw i64 %j, 1
  %done.j = icmp eq i64 %next.j, %n
  br i1 %done.j, label %end.row, label %columns
end.row:
  %next = add nuw nsw i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %end, label %rows
end:
  ret double %x
}
"""


def marked(subscript):
    """What is marked in a nest of two loops, by name, and as what."""
    module = parse_module(NEST.replace("SUBSCRIPT", subscript))
    plain_subscripts(module)
    instructions = module.functions["f"].instructions()
    return {i.name: i.attributes[SHORT_AXIS] for i in instructions if SHORT_AXIS in i.attributes}


@pytest.mark.parametrize(
    "subscript",
    [
        "select i1 %longer, i64 %i, i64 0",
        "select i1 %longer, i64 0, i64 %i",
        "select i1 %longer, i64 %i8, i64 0",
    ],
)
def test_conditions_of_whole_loops_are_marked(subscript):
    assert marked(subscript) == {"k": ROW, "l": ENTRY}


@pytest.mark.parametrize(
    "subscript",
    [
        "select i1 %odd, i64 %i, i64 0",  # changes in the loop
        "select i1 %longer, i64 %i4, i64 0",  # may be poison where it is not chosen
        "select i1 %longer, i64 %n, i64 0",
        "select i1 %longer, i64 %i, i64 1",
    ],
)
def test_other_conditions_and_values_are_not_marked(subscript):
    assert marked(subscript) == {"l": ENTRY}


def test_b1_multiples_are_plain_where_the_loop_has_the_length():
    text = PROGRAM.format(**{**PLAIN, "arms": "%i8, i64 0"})
    module = parse_module(text.replace("%k = ", "%i8 = shl i64 %i, 3\n  %k = "))
    plain_subscripts(module)
    address = next(i for i in module.functions["f"].instructions() if i.name == "p")
    assert address.operands[1].name == "i8"


ASSIGNED = """
declare i64 @llvm.umin.i64(i64, i64)

define double @f(ptr %a, i64 %n, i64 %m) {{
entry:
  %nonempty = icmp sgt i64 %m, 0
  %last = add i64 {length}, {less}
  br i1 %nonempty, label %head, label %end
head:
  %i = phi i64 [ {start}, %entry ], [ %next, %latch ]
  %total = phi double [ 0.0, %entry ], [ %sum, %latch ]
  %k = call i64 @llvm.umin.i64(i64 {operands})
  %p = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %p
  %half = fmul double %total, 5.0e-01
  %sum = fadd double %half, %x
  {leave}
latch:
  %next = add nuw nsw i64 %i, 1
  %done = icmp eq i64 %next, %m
  br i1 %done, label %end, label %head
end:
  %result = phi double [ 0.0, %entry ], [ %sum, %latch ]{early}
  ret double %result
}}
"""
MINIMUM = {
    "length": "%n",
    "less": "-1",
    "start": "0",
    "operands": "%i, i64 %last",
    "leave": "br label %latch",
    "early": "",
}


def chosen(**changes):
    """The text of the program before and after, and what its address is computed from."""
    text = ASSIGNED.format(**{**MINIMUM, **changes})
    module = parse_module(text)
    plain_subscripts(module)
    address = next(i for i in module.functions["f"].instructions() if i.name == "p")
    return text, print_module(module), address.operands[1].opcode


@pytest.mark.parametrize("operands", ["%i, i64 %last", "%last, i64 %i"])
def test_b2_minima_of_a_counter_are_chosen(operands):
    text, after, opcode = chosen(operands=operands)
    assert opcode == "select"
    a = np.random.default_rng(0).normal(size=8)
    both = [compile_text(one, None).function("f") for one in (text, after)]
    for n, m in product(range(9), range(9)):
        if n or m <= 1:  # an axis without entries is read at its last one otherwise
            args = a.ctypes.data, ctypes.c_int64(n), ctypes.c_int64(m)
            assert both[0](*args) == both[1](*args)


@pytest.mark.parametrize(
    "changes", [LEFT, {"less": "-2"}, {"start": "1"}, {"length": "7", "operands": "%i, i64 %n"}]
)
def test_b2_other_minima_stay(changes):
    assert chosen(**changes)[2] == "call"
