"""Exchanged pointers: which pairs never lead to the same memory at one time."""

import pytest

from activerules.ir.analysis.memory.exchanged import apart_at_once
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from tests.ir.memory_of import memory_of

LOOP = """
define void @f(ptr noalias %a, ptr noalias %b, ptr noalias %c, ptr %any, i64 %n) {{
entry:
  %middle = getelementptr double, ptr %b, i64 %n
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %latch ]
  %u = phi ptr [ %a, %entry ], [ {u}, %latch ]
  %v = phi ptr [ %middle, %entry ], [ {v}, %latch ]
  %w = phi ptr [ %c, %entry ], [ {w}, %latch ]
  br label %body
body:
  %t = phi ptr [ %u, %head ], [ %w, %body ]
  %p = getelementptr double, ptr %u, i64 %k
  %q = getelementptr double, ptr %v, i64 %k
  %x = load double, ptr %p
  store double %x, ptr %q
  %odd = icmp eq i64 %k, 1
  %one = select i1 %odd, ptr %v, ptr %w
  br i1 %odd, label %body, label %latch
latch:
  %u.again = phi ptr [ %u, %body ]
  %v.again = phi ptr [ %v, %body ]
  %next = add nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %head, label %end
end:
  %last.u = phi ptr [ %u, %latch ]
  %last.v = phi ptr [ %v, %latch ]
  ret void
}}
"""
EXCHANGED = {
    "two exchange their arrays": ("%v", "%u", "%w"),
    "three pass theirs on": ("%v", "%w", "%u"),
    "on the way through another block": ("%v.again", "%u.again", "%w"),
    "as addresses in them": ("%q", "%p", "%w"),
}
MAY_MEET = {
    "both get the same": ("%v", "%v", "%w"),
    "one gets the first array again": ("%v", "%a", "%w"),
    "it depends on a condition": ("%one", "%u", "%w"),
    "one is from another block": ("%v", "%t", "%w"),
    "nothing is known of one": ("%v", "%any", "%w"),
}


def are_apart(u, v, w):
    """Whether `u` and `v` are, on the way back of the loop; the same whichever is asked for."""
    module = parse_module(LOOP.format(u=u, v=v, w=w))
    function = module.functions["f"]
    memory = memory_of(module, function, control_flow(function))
    named = {i.name: i for i in function.instructions()}
    pairs = [("u", "v"), ("p", "q"), ("last.u", "last.v")]
    (answer,) = {
        apart_at_once(named[x], named[y], memory)
        for pair in pairs
        for x, y in (pair, reversed(pair))
    }
    assert not apart_at_once(named["u"], named["u"], memory)
    return answer


@pytest.mark.parametrize("case", EXCHANGED)
def test_x1_exchanged_pointers_are_apart(case):
    assert are_apart(*EXCHANGED[case])


@pytest.mark.parametrize("case", MAY_MEET)
def test_x1_others_may_meet(case):
    assert not are_apart(*MAY_MEET[case])
