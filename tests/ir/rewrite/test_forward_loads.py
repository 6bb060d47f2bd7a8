"""Loads that leave loops, and that are values known before: in random programs, and where not."""

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal import normal_form
from activerules.ir.rewrite.forward_loads import forward_loads
from tests.ir.memory_of import memory_of
from tests.ir.same_results import assert_same_bits, programs

LOOP = """
define double @f(ptr noalias %a, ptr noalias %b, i64 %n, i1 %c) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %s = phi double [ 0.0, %entry ], [ %t, %latch ]
  %always = load double, ptr %a
  br i1 %c, label %then, label %latch
then:
  %sometimes = load double, ptr %b
  br label %latch
latch:
  %u = phi double [ 0.0, %loop ], [ %sometimes, %then ]
  %v = fadd double %always, %u
  %t = fadd double %s, %v
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %r = phi double [ %t, %latch ]
  ret double %r
}
"""


def rewrite(module):
    function = module.functions["f"]
    normal_form.tidy(function)
    flow = control_flow(function)
    memory = memory_of(module, function, flow)
    dependence = Dependence(Integers(flow, module.types, []))
    return forward_loads(function, flow, memory, dependence, set(flow.order)).anything


def test_h1_every_value_that_is_left_has_the_bits_it_had():
    changed = [assert_same_bits(text, seed, rewrite) for text, seed in programs(2000, 30)]
    assert any(changed)


def test_h2_a_load_moves_only_to_where_it_was_executed_before():
    """One that is behind a condition stays there: there may be no such memory."""
    module = parse_module(LOOP)
    assert rewrite(module)
    block_of = {i.name: i.owner.name for i in module.functions["f"].instructions()}
    assert block_of["always"] == "entry"
    assert block_of["sometimes"] == "then"
