"""Calls through pointers whose targets are known: by name, in a loop."""

import pytest

from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal import normal_form
from activerules.ir.normal.devirtualise import devirtualise
from tests.ir.harness import compile_text

CHOSEN = """
define internal double @one(double %x) {
  %y = fadd double %x, 1.0
  ret double %y
}
define internal double @two(double %x) {
  %y = fmul double %x, 2.0
  ret double %y
}
define internal double @three(double %x) {
  %y = fsub double 3.0, %x
  ret double %y
}
define double @f(double %x, i64 %n, i1 %c) {
entry:
  %first = select i1 %c, ptr @one, ptr @two
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = phi ptr [ %first, %entry ], [ @three, %loop ]
  %s = phi double [ %x, %entry ], [ %y, %loop ]
  %y = call double %p(double %s)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %r = phi double [ %y, %loop ]
  ret double %r
}
"""


@pytest.fixture(scope="module")
def rewritten():
    module = parse_module(CHOSEN)
    devirtualise(module)
    return module


def test_d1_each_function_but_the_last_is_compared_with(rewritten):
    instructions = list(rewritten.functions["f"].instructions())
    called = {i.callee_name for i in instructions if i.opcode == "call"}
    tests = [i for i in instructions if i.opcode == "icmp" and i.operands[0].type.is_pointer]
    compared = {o.name for i in tests for o in i.operands} & called
    assert called == {"one", "two", "three"}
    assert len(compared) == len(tests) == 2
    before, after = (compile_text(t, None).function("f") for t in (CHOSEN, print_module(rewritten)))
    for case in ((0.3, 1, True), (0.3, 1, False), (0.3, 4, True), (-2.0, 5, False)):
        assert before(*case) == after(*case)


def test_d2_the_module_stays_in_normal_form_and_the_calls_in_their_loop(rewritten):
    function = rewritten.functions["f"]
    normal_form.tidy(function)
    flow = control_flow(function)
    normal_form.check(function, flow, flow.order)
    calls = [i for i in function.instructions() if i.opcode == "call"]
    assert len(flow.loops) == 1
    assert all(flow.loop_of(call.owner) is flow.loops[0] for call in calls)
