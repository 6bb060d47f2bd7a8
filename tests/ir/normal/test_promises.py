"""Promises of LLVM: which calls touch no memory."""

from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.promises import keep_promises, touches_memory

CALLS = """
declare double @group(double) #0
declare double @own(double) memory(none)
declare double @reads(double) memory(read)
declare double @silent(double)
define void @f(double %x) {
  %by.group = call double @group(double %x)
  %by.own = call double @own(double %x)
  %by.call = call double @silent(double %x) #0
  %reading = call double @reads(double %x)
  %unknown = call double @silent(double %x)
  %other = call double @silent(double %x) #1
  ret void
}
attributes #0 = { nounwind memory(none) }
attributes #1 = { nounwind memory(argmem: read) }
"""


def test_p1_only_calls_that_promise_it_touch_no_memory():
    module = parse_module(CALLS)
    keep_promises(module)
    calls = [i for i in module.functions["f"].instructions() if i.opcode == "call"]
    assert {i.name for i in calls if not touches_memory(i)} == {"by.group", "by.own", "by.call"}
