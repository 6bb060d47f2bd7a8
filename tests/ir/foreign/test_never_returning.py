"""Code that only leads to an abort is declared; what may be reached otherwise keeps its code."""

from activerules.ir.foreign.never_returning import declared_if_never_returning
from activerules.ir.llvm.parser import parse_module

PANICS = """
@table = constant [1 x ptr] [ptr @in_table]
declare void @abort() noreturn
define double @f(double %x, i1 %c) {
  br i1 %c, label %bad, label %good
bad:
  call void @panic(double %x)
  unreachable
good:
  %t = load ptr, ptr @table
  %y = call double @called(double %x)
  %z = call double %t(double %y)
  ret double %z
}
define internal double @called(double %x) {
  ret double %x
}
define internal double @in_table(double %x) {
  %y = call double @both(double %x)
  ret double %y
}
define internal void @panic(double %x) noreturn {
  %y = call double @message(double %x)
  %z = call double @both(double %y)
  call void @abort()
  unreachable
}
define internal double @message(double %x) {
  ret double %x
}
define internal double @both(double %x) {
  ret double %x
}
"""


def test_a1_functions_reached_through_others_that_return_keep_their_code():
    module = parse_module(declared_if_never_returning(PANICS, "f"))
    assert {f.name for f in module.defined()} == {"f", "called", "in_table", "both"}
    assert {f.name for f in module.functions.values() if f.is_declaration} >= {"panic", "message"}
