"""Calls through tables of functions: which become calls by name."""

import pytest

from activerules.ir.foreign.indirect import call_by_name
from activerules.ir.llvm.model import GlobalRef
from activerules.ir.llvm.parser import parse_module

TABLES = """
@table = internal constant [4 x ptr] [ptr @one, ptr @wide, ptr @two, ptr null]
@other = internal constant [1 x ptr] [ptr @wide]
declare ptr @unknown()
define internal double @one(double %x) {
  ret double %x
}
define internal double @two(double %x) {
  ret double %x
}
define internal double @wide(double %x, i64 %n) {
  ret double %x
}
define double @f(double %x, ptr %p, i64 %k) {
entry:
  POINTER
  %y = call double %g(double %x)
  ret double %y
}
"""


def calls(pointer):
    module = parse_module(TABLES.replace("POINTER", pointer))
    changed = call_by_name(module, "f")
    found = [i for i in module.functions["f"].instructions() if i.opcode == "call"]
    return changed, [i.callee_name if isinstance(i.callee, GlobalRef) else None for i in found]


@pytest.mark.parametrize(
    "pointer",
    [
        "%g = load ptr, ptr %p",
        "%g = call ptr @unknown()",
        "%g = inttoptr i64 %k to ptr",
        "%c = icmp eq i64 %k, 0\n  %at = select i1 %c, ptr %p, ptr @table\n"
        "  %g = load ptr, ptr %at",
    ],
)
def test_i1_a_pointer_from_elsewhere_may_be_any_function(pointer):
    changed, called = calls(pointer)
    assert not changed
    assert called[-1] is None


def test_i2_functions_of_another_signature_are_not_called():
    at = "%at = getelementptr [4 x ptr], ptr @table, i64 0, i64 %k\n  %g = load ptr, ptr %at"
    changed, called = calls(at)
    assert changed
    assert sorted(called) == ["one", "two"]
    changed, called = calls("%h = load ptr, ptr @other\n  call void %h(ptr %p)\n" + at)
    assert changed
    assert called[0] == "llvm.trap"
