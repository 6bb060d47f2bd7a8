"""The reverse sweep: what it writes, and the cotangents it leaves behind."""

import numpy as np
import pytest

from activerules.ir.analysis.memory.addresses import address_of
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Argument
from activerules.ir.llvm.parser import parse_module
from tests.ir.harness import Active, Const, Duplicated, check_gradient

# A window of `p` moves on and is overwritten; `s` is made anew in each iteration and used twice
WINDOW = """
define double @f(ptr noalias %p, ptr noalias %q, double %x, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi double [ %x, %entry ], [ %t, %loop ]
  %at = getelementptr double, ptr %p, i64 %i
  %next = add i64 %i, 1
  %behind = getelementptr double, ptr %p, i64 %next
  %a = load double, ptr %at
  %b = load double, ptr %behind
  %ab = fmul double %a, %b
  %t = fmul double %ab, %s
  store double %t, ptr %behind
  %to = getelementptr double, ptr %q, i64 %i
  %old = load double, ptr %to
  %new = fmul double %old, %s
  store double %new, ptr %to
  store double 0.5, ptr %at
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %r = phi double [ %t, %loop ]
  ret double %r
}
"""
ACTIVITIES = [Duplicated, Duplicated, Active, Const]


def test_r1_reverse_writes_no_primal_memory():
    module = parse_module(differentiate(WINDOW, "f", ACTIVITIES))
    reverse = module.functions["f.reverse"]
    primal = {reverse.arguments[0], reverse.arguments[2]}
    written = [
        address_of(i.operands[1], module.types).base
        for i in reverse.instructions()
        if i.opcode == "store"
    ]
    assert any(isinstance(base, Argument) for base in written)
    assert not any(base in primal for base in written)


def test_r2_r3_cotangents_of_values_and_memory_are_complete_where_they_are_used():
    """Shadows begin as cotangents of what is left; of what is overwritten they end at zero."""
    rng = np.random.default_rng(2)
    for n in (1, 2, 5):
        args = [rng.normal(size=6), rng.normal(size=6), 0.8, n]
        for opt in (0, 2):
            check_gradient(WINDOW, "f", ACTIVITIES, args, opt=opt)


SQUARES = """
define void @f(ptr noalias %p, ptr noalias %q, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr double, ptr %p, i64 %i
  %a = load double, ptr %at
  %square = fmul double %a, %a
  %to = getelementptr double, ptr %q, i64 %i
  store double %square, ptr %to
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def test_the_edge_back_of_a_loop_that_carries_no_float_is_empty():
    """LLVM vectorises the loop if nothing is computed in a block of its own between iterations."""
    module = parse_module(differentiate(SQUARES, "f", [Duplicated, Duplicated, Const]))
    (loop,) = control_flow(module.functions["f.reverse"]).loops
    assert loop.latch is not loop.header
    assert [i.opcode for i in loop.latch.instructions] == ["br"]


LEFT_IN_THE_MIDDLE = """
define double @f(double %x, i64 %n) {
entry:
  br label %loop
loop:
  %y = phi double [ %x, %entry ], [ %next, %latch ]
  %k = phi i64 [ 0, %entry ], [ %more, %latch ]
  %u = fadd double %y, %x
  %large = fcmp ogt double %y, 1.0
  br i1 %large, label %may.leave, label %stay
may.leave:
  %square = fmul double %u, %u
  %tenth = fmul double %square, 0.1
  %stop = icmp sge i64 %k, %n
  br i1 %stop, label %end, label %latch
stay:
  %t = call double @llvm.cos.f64(double %u)
  %above = fadd double %t, 1.0
  br label %latch
latch:
  %next = phi double [ %tenth, %may.leave ], [ %above, %stay ]
  %more = add i64 %k, 1
  br label %loop
end:
  ret double %square
}
declare double @llvm.cos.f64(double)
"""


@pytest.mark.parametrize("n", [0, 2, 5])
def test_what_an_iteration_computed_is_not_that_of_the_one_before(n):
    """The sweep enters the loop in `may.leave`, and comes to `stay` in an iteration before."""
    check_gradient(LEFT_IN_THE_MIDDLE, "f", [Active, Const], [0.6, n])
