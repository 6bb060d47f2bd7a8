"""What LLVM's passes leave as it is, because derivatives depend on it."""

from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.types import VectorType
from activerules.ir.text.normalise import normalise
from tests.ir.harness import Active, check_gradient

SUM = """
define fastcc double @callee(double %x) {
  %square = fmul fast double %x, %x
  ret double %square
}
define double @f(ptr noalias readonly align 16 %a, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi double [ 0.0, %entry ], [ %t, %loop ]
  %at = getelementptr double, ptr %a, i64 %i
  %x = load double, ptr %at
  %y = call fastcc double @callee(double %x)
  %t = fadd fast double %s, %y
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 64
  br i1 %more, label %loop, label %end
end:
  ret double %t
}
"""

EQUAL = """
declare double @llvm.sqrt.f64(double)
define double @f(double %x) {
entry:
  %equal = fcmp oeq double %x, 2.0
  br i1 %equal, label %then, label %else
then:
  %square = fmul double %x, %x
  br label %end
else:
  %product = fmul double %x, %x
  %root = call double @llvm.sqrt.f64(double %product)
  %other = fmul double %x, %root
  br label %end
end:
  %r = phi double [ %square, %then ], [ %other, %else ]
  ret double %r
}
"""

IGNORING = """
define double @activerules.ignore.f64(double %x) {
  ret double %x
}
define double @f(double %x) {
  %fixed = call double @activerules.ignore.f64(double %x)
  %r = fmul double %fixed, %x
  ret double %r
}
"""


def header(text, name):
    (line,) = (line for line in text.splitlines() if f"@{name}(" in line and "define" in line)
    return line.partition(")")[0].replace(" noundef", "")


def test_t1_the_function_keeps_name_parameters_and_calling_convention():
    assert header(normalise(SUM, "f"), "f").split("(")[0] == "define double @f"
    function = parse_module(normalise(SUM, "f")).functions["f"]
    assert [str(a.type) for a in function.arguments] == ["ptr", "i64"]
    fast = header(normalise(SUM, "callee"), "callee")
    assert fast.startswith("define fastcc double @callee(double")


def test_t2_loops_are_neither_vectorised_nor_unrolled():
    """64 iterations of a sum that may be reordered: LLVM would do both."""
    function = parse_module(normalise(SUM, "f")).functions["f"]
    assert len(control_flow(function).loops) == 1
    body = list(function.instructions())
    assert not any(isinstance(i.type, VectorType) for i in body)
    assert [i.opcode for i in body].count("load") == 1


def test_t3_a_number_is_not_replaced_by_the_constant_it_equals():
    """At x = 2 the derivative is that of x * x, which is not that of 2 * 2."""
    for x in (2.0, 3.0):
        check_gradient(EQUAL, "f", [Active], [x])


def test_t4_functions_that_stop_derivatives_stay_calls():
    module = parse_module(normalise(IGNORING, "f"))
    calls = [i.callee_name for i in module.functions["f"].instructions() if i.opcode == "call"]
    assert calls == ["activerules.ignore.f64"]
    assert "activerules.ignore.f64" not in {f.name for f in module.defined()}
