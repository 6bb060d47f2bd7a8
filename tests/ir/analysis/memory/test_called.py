"""Calls of functions of the module: how operands are grouped, and what the callee may do here."""

import pytest

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.analysis.summaries import CallsIn, ModuleSummaries
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from tests.ir.memory_of import memory_of

MODULE = """
declare ptr @malloc(i64)
declare void @unknown(ptr)
@table = global double 0.0
define void @g(ptr %a, ptr %b) {
  %x = load double, ptr %a
  %held = load ptr, ptr %b
  store double %x, ptr %held
  store double %x, ptr @table
  UNKNOWN
  ret void
}
define double @f(ptr %p, ptr %q, ptr noalias %own, i1 %c) {
  %new = call ptr @malloc(i64 16)
  %inner = call ptr @malloc(i64 8)
  store ptr %inner, ptr %own
  %inside = getelementptr double, ptr %new, i64 1
  %either = select i1 %c, ptr %new, ptr %p
  call void @g(ptr %FIRST, ptr %SECOND)
  ret double 0.0
}
"""


def called(first, second, unknown=""):
    """What the call of `g` does; and the objects of `f` by the names of values, `table` too."""
    text = MODULE.replace("FIRST", first).replace("SECOND", second).replace("UNKNOWN", unknown)
    module, calls = parse_module(text), EngineCalls(None)
    function = module.functions["f"]
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=False)
    callees = CallsIn(ModuleSummaries(module, calls), returns)
    memory = memory_of(module, function, flow, callees=callees)
    (call,) = memory.called.values()
    named = [*function.arguments, *(i for i in function.instructions() if i.type.is_pointer)]
    return call, {v.name: memory.objects(v) for v in named if v.type.is_pointer}


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [("new", "own", False), ("new", "inside", True), ("p", "either", True), ("p", "new", False)],
)
def test_c1_operands_that_may_point_to_one_object_are_one_group(first, second, together):
    call, objects = called(first, second)
    assert (call.groups[0] == call.groups[1]) is together
    assert call.group(0) >= objects[first]
    assert call.group(1) >= objects[second]
    assert together or call.group(0).isdisjoint(call.group(1))


@pytest.mark.parametrize(
    ("first", "second", "apart"), [("new", "own", True), ("p", "own", True), ("p", "q", False)]
)
def test_c2_groups_that_may_overlap_are_not_apart(first, second, apart):
    """Two arguments of a caller are different objects, and may be the same memory."""
    call, _ = called(first, second)
    assert call.groups[0] != call.groups[1]
    assert call.apart is apart


def test_c3_a_call_reads_and_writes_what_its_summary_names():
    call, objects = called("new", "own")
    assert call.reads >= objects["new"] | objects["own"]
    assert call.writes >= objects["inner"]
    assert any(o.kind == "global" for o in call.writes)
    assert call.writes.isdisjoint(objects["new"] | objects["own"])


def test_c3_unknown_code_may_reach_all_that_the_operands_lead_to():
    call, objects = called("new", "own", "call void @unknown(ptr %b)")
    assert call.writes >= objects["new"] | objects["own"] | objects["inner"]
