"""Loops that compute on the tangents of several lanes as scalars."""

import numpy as np
import pytest

from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.parser import parse_module
from tests.ir.forward_harness import check_forward
from tests.ir.harness import Const, Duplicated

# A branch in the loop; values from before it, and one that is used behind it.
BRANCH = """
define double @f(ptr noalias %x, ptr noalias %y, ptr noalias %w, double %z, i64 %n) {
entry:
  %zz = fmul double %z, %z
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %next = add nuw nsw i64 %i, 1
  %at = getelementptr double, ptr %x, i64 %i
  %to = getelementptr double, ptr %y, i64 %i
  %out = getelementptr double, ptr %w, i64 %i
  %a = load double, ptr %at
  %positive = fcmp ogt double %a, 0.000000e+00
  br i1 %positive, label %square, label %latch
square:
  %b = fmul double %a, %a
  %c = fadd double %b, %zz
  store double %c, ptr %out
  br label %latch
latch:
  %d = phi double [ %zz, %loop ], [ %c, %square ]
  %e = select i1 %positive, double %d, double 2.000000e+00
  %g = fmul double %e, %z
  store double %g, ptr %to
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %last = phi double [ %g, %latch ]
  %r = fmul double %last, %zz
  ret double %r
}
"""
ACTIVITIES = [Duplicated] * 4 + [Const]


def test_i1_vectors_are_packed_for_other_blocks():
    text = differentiate(BRANCH, "f", ACTIVITIES, "forward", width=3)
    blocks = {block.name: block for block in parse_module(text).functions["f.forward"].blocks}

    def has_vectors(name):
        return any(
            i.opcode in {"fmul", "fadd"} and "x double>" in str(i.type)
            for i in blocks[name].instructions
        )

    assert has_vectors("entry")
    assert has_vectors("end")
    assert not any(map(has_vectors, ("loop", "square", "latch")))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("opt", [0, 3])
def test_i2_each_lane_has_its_tangent(width, opt):
    rng = np.random.default_rng(5)
    args = [*rng.normal(size=(3, 9)), 0.8, 9]
    check_forward(BRANCH, "f", ACTIVITIES, args, width=width, opt=opt)
