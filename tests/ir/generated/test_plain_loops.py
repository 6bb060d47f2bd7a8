"""Innermost loops with subscripts along axes that may have length one have versions without."""

import itertools

import numpy as np
import pytest

from activerules.ir.generate.sweep import UNCHANGED
from activerules.ir.generated.plain_loops import version_plain_loops
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.verify import verified
from activerules.ir.normal.short_axes import ENTRY, SHORT_AXIS
from tests.ir.harness import compile_text

# entered from two blocks, with a branch in it; one condition is computed in the loop
LOOP = """
declare void @llvm.assume(i1)

define double @f(ptr %a, ptr %b, i64 %n, i64 %la, i64 %lb) {{
entry:
  %longer = icmp ugt i64 %la, 1
  %odd = trunc i64 %n to i1
  br i1 %odd, label %one, label %other
one:
  br label %head
other:
  br label %head
head:
  %i = phi i64 [ 0, %one ], [ 0, %other ], [ %next, %latch ]
  %total = phi double [ 1.0, %one ], [ 2.0, %other ], [ %sum, %latch ]
  %k = select i1 %longer, i64 %i, i64 0
  %p = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %p
  %short = icmp ult i64 %lb, 2
  %m = select i1 %short, i64 0, i64 %i
  %q = getelementptr double, ptr %b, i64 %m
  %y = load double, ptr %q
  %more = fcmp ogt double %x, %y
  br i1 %more, label %add, label %latch
add:
  %both = fadd double %x, %y
  br label %latch
latch:
  %term = phi double [ %both, %add ], [ %y, %head ]
  %product = fmul double %total, 0.5
  %sum = fadd double %product, %term
{many}  %next = add nuw nsw i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %end, label %head
end:
{exit}}}
"""
BY_PHI = "  %r = phi double [ %sum, %latch ]\n  ret double %r\n"


def versions(text):
    """The text before and after, and the number of loops."""
    module = parse_module(text)
    for i in module.functions["f"].instructions():
        if i.opcode == "select":
            i.attributes[SHORT_AXIS] = ENTRY
        if i.name == "length":
            i.attributes[UNCHANGED] = True
    before = print_module(module)
    version_plain_loops([module.functions["f"]])
    after = verified(print_module(module))
    return before, print_module(module), after, len(control_flow(module.functions["f"]).loops)


def test_l1_all_versions_compute_what_the_loop_did():
    before, after, text, loops = versions(LOOP.format(many="", exit=BY_PHI))
    assert loops == 4  # both axes longer, the first, the second, and the loop as it was
    assert after.count(" select ") == before.count(" select ") == 2
    old, new = (compile_text(str(one)).function("f") for one in (before, text))
    a, b = np.random.default_rng(0).normal(size=(2, 6))
    for n, longer, others in itertools.product((1, 2, 5, 6), (0, 1), (0, 1)):
        args = a.ctypes.data, b.ctypes.data, n, n if longer else 1, n if others else 1
        assert new(*args) == old(*args)


# the length of an axis is read in the loop, and there may be more operands
SUM = """
declare void @g()

define double @f(ptr %a, ptr %n, i64 %end, i64 %lb, i64 %lc, i64 %ld) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %head ]
  %total = phi double [ 0.0, %entry ], [ %sum, %head ]
{first}  %length = load i64, ptr %n
  %longer = icmp ugt i64 %length, 1
  %k = select i1 %longer, i64 %i, i64 0
  %p = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %p
{more}  %product = fmul double %total, 0.5
  %sum = fadd double %product, {term}
  %next = add nuw nsw i64 %i, 1
  %done = icmp eq i64 %next, %end
  br i1 %done, label %last, label %head
last:
  %r = phi double [ %sum, %head ]
  ret double %r
}}
"""
OPERAND = """
  %is.{0} = icmp ugt i64 %l{0}, 1
  %k.{0} = select i1 %is.{0}, i64 %i, i64 0
  %p.{0} = getelementptr double, ptr %a, i64 %k.{0}
  %x.{0} = load double, ptr %p.{0}
  %t.{0} = fmul double %x.{0}, {1}
"""


def of_several(count):
    """A sum of products of `count` operands."""
    names = "bcd"[: count - 1]
    terms = ["%x", *(f"%t.{name}" for name in names)]
    more = "".join(map(OPERAND.format, names, terms))
    return SUM.format(first="", more=more, term=terms[-1])


@pytest.mark.parametrize(("count", "loops"), [(1, 3), (2, 4), (3, 5), (4, 2)])
def test_l1_of_conditions_that_are_read_in_the_loop(count, loops):
    before, _, text, found = versions(of_several(count))
    assert found == loops
    old, new = (compile_text(str(one)).function("f") for one in (before, text))
    a = np.random.default_rng(0).normal(size=7)
    for lengths in itertools.product((1, 7), repeat=count):
        length = np.array(lengths[0])
        args = a.ctypes.data, length.ctypes.data, 7, *lengths[1:], *(1,) * (4 - count)
        assert new(*args) == old(*args)


def test_l1_a_length_that_may_change_is_read_in_each_iteration():
    """A call in front of the load may write to it."""
    text = SUM.format(first="  call void @g()\n", more="", term="%x")
    before, after, _, loops = versions(text)
    assert (after, loops) == (before, 1)


# the length is on a tape, in a row whose number is in a variable
BY_ROW = """  %row = load i64, ptr %variable
  %start = add i64 %row, 0
  %address = getelementptr i64, ptr %n, i64 %start
"""


@pytest.mark.parametrize(
    ("also", "loops"),
    [
        ("", 3),
        ("  store i64 %row, ptr %variable\n", 1),
        ("  %other = getelementptr i8, ptr %variable, i64 0\n", 1),
    ],
    ids=["unchanged", "stored to in the loop", "accessed by another name"],
)
def test_l1_of_a_condition_that_is_read_from_the_tape(also, loops):
    text = SUM.format(first=BY_ROW, more=also, term="%x").replace(
        "i64, ptr %n\n", "i64, ptr %address\n"
    )
    text = text.replace(
        "  br label %head\nhead",
        """  %variable = alloca i64
  store i64 1, ptr %variable
  br label %head
head""",
    )
    _, _, text, found = versions(text)
    assert found == loops
    a, lengths = np.arange(1.0, 8.0), np.array([1, 7])
    compiled = compile_text(text).function("f")
    assert compiled(a.ctypes.data, lengths.ctypes.data, 7, 1, 1, 1) == pytest.approx(
        sum(x * 0.5 ** (7 - x) for x in a)
    )


@pytest.mark.parametrize(
    ("many", "exit"),
    [
        ("", "  ret double %sum\n"),
        ("".join(f"  %m{k} = add i64 %i, {k}\n" for k in range(80)), BY_PHI),
        ("  %old = atomicrmw add ptr %a, i64 %i seq_cst\n", BY_PHI),
        ('  call void @llvm.assume(i1 true) [ "nonnull"(ptr %p) ]\n', BY_PHI),
    ],
    ids=["used elsewhere", "large", "atomic", "operand bundle"],
)
def test_l2_other_loops_stay(many, exit):
    before, after, _, loops = versions(LOOP.format(many=many, exit=exit))
    assert loops == 1
    assert after == before


def test_functions_that_are_kept_small_stay():
    text = LOOP.format(many="", exit=BY_PHI).replace(
        "i64 %lb) {", "i64 %lb) cold minsize optsize {"
    )
    before, after, _, loops = versions(text)
    assert (after, loops) == (before, 1)
