"""The first and the last iteration of a loop are peeled off: same results, in normal form."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Module
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal import normal_form
from activerules.ir.rewrite.peel import peel
from activerules.ir.text.normalise import canonical, simple_loops
from tests.ir.harness import compile_text

# what the branch in the loop is on, where `%i` is the index, `%next` the following one
FIRST = ["icmp eq i64 %i, %begin", "icmp sgt i64 %i, 0", "icmp slt i64 %before, 0"]
LAST = ["icmp eq i64 %next, %n", "icmp slt i64 %next, %n", "icmp ne i64 %i, %final"]
BOTH = ["icmp ult i64 %before, %inside"]
UP = ("0", "1", "icmp slt i64 %next, %n")
UP_BY_EQUALITY = ("0", "1", "icmp ne i64 %next, %n")
TESTED_BEFORE_STEP = ("0", "1", "icmp slt i64 %i, %final")
DOWN = ("%final", "-1", "icmp sgt i64 %i, 0")


def loop(condition: str, counts: tuple[str, str, str], fails: str = "false") -> str:
    """A loop with a branch, a carried sum, and a value that leaves it; `fails`: on what it is left
    by an error.
    """
    begin, step, again = counts
    return f"""define double @f(ptr %x, ptr %y, i64 %n) {{
entry:
  %final = sub nsw i64 %n, 1
  %inside = sub nsw i64 %n, 2
  %any = icmp sgt i64 %n, 0
  %begin = add nsw i64 0, {begin}
  br i1 %any, label %enter, label %none
enter:
  br label %head
head:
  %i = phi i64 [ {begin}, %enter ], [ %next, %latch ]
  %sum = phi double [ 0.0, %enter ], [ %sum.next, %latch ]
  %old = phi double [ 1.0, %enter ], [ %v, %latch ]
  %next = add nsw i64 %i, {step}
  %before = sub nsw i64 %i, 1
  %p = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %p, align 8
  %wrong = fcmp olt double %v, -1.0e9
  %fails = and i1 %wrong, {fails}
  br i1 %fails, label %error, label %go
go:
  %condition = {condition}
  br i1 %condition, label %yes, label %no
yes:
  %a = fmul double %v, 3.0
  br label %latch
no:
  %b = fadd double %v, %old
  br label %latch
latch:
  %w = phi double [ %a, %yes ], [ %b, %no ]
  %chosen = select i1 %condition, double 5.0, double %w
  %sum.next = fadd double %sum, %chosen
  %q = getelementptr double, ptr %y, i64 %i
  store double %w, ptr %q, align 8
  %again = {again}
  br i1 %again, label %head, label %leave
leave:
  %sum.out = phi double [ %sum.next, %latch ]
  %v.out = phi double [ %v, %latch ]
  %i.out = phi i64 [ %i, %latch ]
  br label %end
none:
  br label %end
end:
  %s = phi double [ 0.0, %none ], [ %sum.out, %leave ]
  %u = phi double [ 0.0, %none ], [ %v.out, %leave ]
  %k = phi i64 [ 0, %none ], [ %i.out, %leave ]
  %number = sitofp i64 %k to double
  %r = fadd double %s, %u
  %result = fadd double %r, %number
  ret double %result
error:
  %bad = phi double [ %v, %head ]
  store double %bad, ptr %y, align 8
  call void @abort()
  unreachable
}}
declare void @abort() noreturn
"""


def peeled(text: str) -> tuple[Module, bool]:
    module = parse_module(simple_loops(canonical(text)))
    function = module.functions["f"]
    normal_form.tidy(function)
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=False)
    return module, peel(function, flow, returns, Integers(flow, module.types))


def results(text: str) -> list[bytes]:
    f = compile_text(text, None).function("f")
    found = []
    for n in range(7):
        x, y = np.random.default_rng(n).normal(size=8), np.zeros(8)
        found += [np.float64(f(x.ctypes.data, y.ctypes.data, n)).tobytes(), y.tobytes()]
    return found


CASES = [
    *product([*FIRST, *LAST, *BOTH], [UP, UP_BY_EQUALITY, TESTED_BEFORE_STEP], ["false", "true"]),
    *product(["icmp eq i64 %i, 0", "icmp eq i64 %i, %final"], [DOWN], ["false", "true"]),
]


@pytest.mark.parametrize(("condition", "counts", "fails"), CASES)
def test_p1_the_same_results(condition: str, counts: tuple[str, str, str], fails: str) -> None:
    text = loop(condition, counts, fails)
    module, changed = peeled(text)
    assert changed
    assert results(print_module(module)) == results(text)


@pytest.mark.parametrize("other", [*FIRST, *LAST])
@pytest.mark.parametrize("counts", [UP, TESTED_BEFORE_STEP])
def test_p1_a_loop_that_runs_once_though_its_bound_is_passed(
    other: str, counts: tuple[str, str, str]
) -> None:
    text = loop("and i1 %within, %other", counts)
    tests = f"%within = icmp slt i64 %i, %n\n  %other = {other}\n  %condition ="
    text = text.replace("%condition =", tests)
    text = text.replace("br i1 %any, label %enter, label %none", "br label %enter")
    text = text.replace("none:\n  br label %end\n", "")
    text = text.replace("[ 0.0, %none ], ", "").replace("[ 0, %none ], ", "")
    module, _ = peeled(text)
    assert results(print_module(module)) == results(text)


@pytest.mark.parametrize(("condition", "counts", "fails"), CASES)
def test_p2_the_result_is_in_normal_form(
    condition: str, counts: tuple[str, str, str], fails: str
) -> None:
    module, _ = peeled(loop(condition, counts, fails))
    function = module.functions["f"]
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=False)
    normal_form.check(function, flow, returns.live)
    (only,) = flow.loops
    (latch, leave), *_ = returns.exits_of(only)
    assert latch is only.latch
    assert flow.predecessors[leave] == [latch]
    for i in function.instructions():
        for operand, source in zip(i.operands, i.blocks or [i.parent] * 9, strict=False):
            defined = getattr(operand, "parent", None)
            if defined in only.blocks and i.parent not in only.blocks:
                assert i.opcode == "phi"
                assert source in only.blocks


@pytest.mark.parametrize("condition", [*FIRST, *LAST, *BOTH])
def test_the_loop_that_is_left_has_no_branch(condition: str) -> None:
    module, _ = peeled(loop(condition, UP))
    (only,) = control_flow(module.functions["f"]).loops
    branches = [b for b in only.blocks if len(b.successors) > 1 and b is not only.latch]
    assert not branches


@pytest.mark.parametrize(
    "text",
    [
        loop("icmp eq i64 %i, 2", UP),
        loop("icmp slt i64 %i, 2", UP),
        loop("fcmp ogt double %v, 0.0", UP),
        loop("icmp sgt i64 %i, 0", UP)
        .replace("label %error", "label %early")
        .replace("error:", "early:\n  br label %end\nerror:")
        .replace("[ 0.0, %none ],", "[ 0.0, %none ], [ 0.0, %early ],")
        .replace("[ 0, %none ],", "[ 0, %none ], [ 0, %early ],")
        .replace("%bad = phi double [ %v, %head ]", "%bad = fadd double 0.0, 0.0"),
    ],
    ids=["one iteration inside", "two iterations", "a float", "an early end"],
)
def test_not_peeled(text: str) -> None:
    module, changed = peeled(text)
    assert not changed
    assert not re.search(r"\.(first|last)\b", print_module(module))


def test_a_loop_that_is_left_in_its_middle_is_not_peeled() -> None:
    text = loop("icmp sgt i64 %i, 0", UP)
    text = text.replace("  br i1 %again, label %head, label %leave", "  br label %head")
    text = text.replace(
        "br i1 %fails, label %error, label %go", "br i1 %stop, label %leave, label %go"
    )
    text = text.replace("  %fails =", "  %stop = icmp eq i64 %i, %n\n  %fails =")
    text = text.replace("%sum.next, %latch ]\n  %v.out", "%sum, %head ]\n  %v.out")
    text = text.replace("[ %v, %latch ]\n  %i.out", "[ %v, %head ]\n  %i.out")
    text = text.replace("[ %i, %latch ]", "[ %i, %head ]")
    text = text[: text.index("error:")] + "}\ndeclare void @abort() noreturn\n"
    assert not peeled(text)[1]


def test_p1_two_loops_of_which_one_ends_where_the_other_did() -> None:
    text = loop("icmp sgt i64 %i, 0", UP)
    text = text.replace("leave:\n", "leave:\n  %last = phi i64 [ %next, %latch ]\n").replace(
        "  %i.out = phi i64 [ %i, %latch ]\n  br label %end",
        """  %i.out = phi i64 [ %i, %latch ]
  br label %again.head
again.head:
  %j = phi i64 [ 0, %leave ], [ %j.next, %again.latch ]
  %t = phi double [ 0.0, %leave ], [ %t.next, %again.latch ]
  %j.next = add nsw i64 %j, 1
  %is.first = icmp eq i64 %j, 0
  br i1 %is.first, label %again.latch, label %other
other:
  %py = getelementptr double, ptr %y, i64 %j
  %vy = load double, ptr %py, align 8
  br label %again.latch
again.latch:
  %add = phi double [ 7.0, %again.head ], [ %vy, %other ]
  %t.next = fadd double %t, %add
  %more = icmp ne i64 %j.next, %last
  br i1 %more, label %again.head, label %finally
finally:
  %t.out = phi double [ %t.next, %again.latch ]
  br label %end""",
    )
    text = text.replace("%leave ]", "%finally ]").replace("[ 0, %finally ]", "[ 0, %leave ]")
    text = text.replace("[ 0.0, %finally ]", "[ 0.0, %leave ]")
    module, changed = peeled(text)
    assert changed
    printed = print_module(module)
    assert ".first" in printed
    assert "again.head.first" in printed
    assert results(printed) == results(text)


def test_a_large_loop_is_not_peeled() -> None:
    work = "\n".join(f"  %t{k} = fmul double %v, {k}.0" for k in range(150))
    text = loop("icmp sgt i64 %i, 0", UP).replace("  %fails =", f"{work}\n  %fails =")
    assert not peeled(text)[1]


BORDERS = {
    "first": "icmp sgt i64 %i, 0",
    "last": "icmp slt i64 %i.next, %n",
    "both": "icmp ult i64 %i.before, %n.inside",
}


def nest(condition: str, inner: str = "%m") -> str:
    """A loop of loops whose inner one asks for the border of the outer one."""
    return f"""define double @f(ptr %x, ptr %y, i64 %n) {{
entry:
  %m = add nsw i64 %n, 1
  %n.inside = sub nsw i64 %n, 2
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %enter, label %end
enter:
  br label %rows
rows:
  %i = phi i64 [ 0, %enter ], [ %i.next, %rows.latch ]
  %s = phi double [ 0.0, %enter ], [ %s.out, %rows.latch ]
  %i.next = add nsw i64 %i, 1
  %i.before = sub nsw i64 %i, 1
  %border = {condition}
  %p = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %p, align 8
  %some = icmp sgt i64 {inner}, 0
  br i1 %some, label %columns.enter, label %rows.latch
columns.enter:
  br label %columns
columns:
  %j = phi i64 [ 0, %columns.enter ], [ %j.next, %columns.latch ]
  %t = phi double [ %s, %columns.enter ], [ %t.next, %columns.latch ]
  %q = getelementptr double, ptr %y, i64 %j
  %w = load double, ptr %q, align 8
  br i1 %border, label %yes, label %columns.latch
yes:
  %a = fmul double %w, %v
  br label %columns.latch
columns.latch:
  %b = phi double [ %w, %columns ], [ %a, %yes ]
  %c = fadd double %b, 1.0
  store double %c, ptr %q, align 8
  %t.next = fadd double %t, %b
  %j.next = add nsw i64 %j, 1
  %more = icmp slt i64 %j.next, {inner}
  br i1 %more, label %columns, label %columns.leave
columns.leave:
  %t.out = phi double [ %t.next, %columns.latch ]
  br label %rows.latch
rows.latch:
  %s.out = phi double [ %s, %rows ], [ %t.out, %columns.leave ]
  %again = icmp slt i64 %i.next, %n
  br i1 %again, label %rows, label %leave
leave:
  %result.out = phi double [ %s.out, %rows.latch ]
  br label %end
end:
  %result = phi double [ 0.0, %entry ], [ %result.out, %leave ]
  ret double %result
}}
"""


@pytest.mark.parametrize("condition", BORDERS.values(), ids=BORDERS)
def test_p1_a_loop_of_loops(condition: str) -> None:
    text = nest(condition)
    module, changed = peeled(text)
    assert changed
    function = module.functions["f"]
    normal_form.check(function, flow := control_flow(function), flow.order)
    assert all(
        len(block.successors) == 1 or block is loop.latch
        for loop in flow.loops
        if loop.parent is not None
        for block in loop.blocks
    )
    assert results(print_module(module)) == results(text)


def test_a_triangle_is_not_peeled() -> None:
    text = nest("fcmp olt double 0.0, 1.0", "%i")
    assert "icmp sgt i64 %i, 0" in text
    assert not peeled(text)[1]


def clamped(intrinsic: str, x: str, y: str) -> str:
    """A loop that reads a neighbour at the greater or the smaller of two indices."""
    return f"""define double @f(ptr %x, ptr %y, i64 %n) {{
entry:
  %final = sub nsw i64 %n, 1
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %enter, label %end
enter:
  br label %head
head:
  %i = phi i64 [ 0, %enter ], [ %next, %head ]
  %next = add nsw i64 %i, 1
  %before = sub nsw i64 %i, 1
  %near = call i64 @llvm.{intrinsic}.i64(i64 {x}, i64 {y})
  %p = getelementptr double, ptr %x, i64 %near
  %v = load double, ptr %p, align 8
  %q = getelementptr double, ptr %y, i64 %i
  store double %v, ptr %q, align 8
  %again = icmp slt i64 %next, %n
  br i1 %again, label %head, label %leave
leave:
  br label %end
end:
  ret double 0.0
}}
declare i64 @llvm.{intrinsic}.i64(i64, i64)
"""


@pytest.mark.parametrize(
    ("intrinsic", "x", "y"),
    [
        ("smax", "%before", "0"),
        ("smax", "0", "%before"),
        ("smin", "%next", "%final"),
        ("smin", "%final", "%next"),
        ("umin", "%next", "%final"),
    ],
)
def test_p1_the_nearest_index_within_an_array(intrinsic: str, x: str, y: str) -> None:
    text = clamped(intrinsic, x, y)
    module, changed = peeled(text)
    assert changed
    function = module.functions["f"]
    (only,) = control_flow(function).loops
    assert not [i for block in only.blocks for i in block.instructions if i.opcode == "call"]
    assert results(print_module(module)) == results(text)
