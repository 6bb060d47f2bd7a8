"""`activerules.ir.explain`: every decision of a plan in the text, one construct per test."""

import sys

import pytest

import activerules.ir
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.errors import ArityError

EXP_OF_SCALED = """
define double @f(ptr noalias %x, double %w, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi double [ 0.0, %entry ], [ %sum, %loop ]
  %at = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %at
  %scaled = fmul double %v, %w
  %e = call double @exp(double %scaled)
  %sum = fadd double %s, %e
  %next = add nuw nsw i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %end, label %loop
end:
  ret double %sum
}
declare double @exp(double) memory(none) nounwind willreturn
"""

SQUARE_IN_PLACE = """
define void @f(ptr noalias %x) {
  %v = load double, ptr %x
  %y = fmul double %v, %v
  store double %y, ptr %x
  ret void
}
"""

SEARCH = """
define double @f(ptr noalias %x, double %start) {
entry:
  br label %loop
loop:
  %s = phi double [ %start, %entry ], [ %sum, %loop ]
  %v = load double, ptr %x
  %sum = fmul double %s, %v
  %more = fcmp olt double %sum, 1.0e3
  br i1 %more, label %loop, label %end
end:
  ret double %sum
}
"""


def section(text: str, title: str) -> list[str]:
    """The lines below the title of a paragraph."""
    (found,) = [p for p in text.split("\n\n") if p.startswith(title + "\n")]
    return found.splitlines()[1:]


def line_about(lines: list[str], register: str) -> str:
    (found,) = [line for line in lines if line.strip().startswith(register + " ")]
    return found


def explained_sum() -> str:
    return activerules.ir.explain(EXP_OF_SCALED, "f", (Duplicated, Active, Const))


def test_headline_repeats_what_was_asked():
    assert explained_sum().splitlines()[0] == "f(%x: duplicated, %w: active, %n: const) -> active"


@pytest.mark.parametrize(
    ("register", "activity"),
    [("%v", "active"), ("%scaled", "active"), ("%at", "has a shadow"), ("%next", "1")],
)
def test_activity_follows_each_instruction(register, activity):
    assert line_about(section(explained_sum(), "activity"), register).endswith(activity)


def test_an_inactive_float_says_which_half_is_missing():
    text = activerules.ir.explain(EXP_OF_SCALED, "f", (Const, Active, Const))
    assert line_about(section(text, "activity"), "%v").endswith("only useful")


def test_expensive_call_is_kept_and_its_argument_read_again():
    text = explained_sum()
    kept = line_about(section(text, "kept"), "%e")
    assert "8 bytes per iteration of %loop" in kept
    assert "exp is expensive to compute again" in kept
    assert line_about(section(text, "computed again"), "%v").endswith("a value of %x")


def test_loop_of_known_length():
    loop = line_about(section(explained_sum(), "loops"), "%loop")
    assert "length known: from 0 by 1 while != %n" in loop


def test_loop_of_unknown_length_keeps_its_length():
    text = activerules.ir.explain(SEARCH, "f", (Duplicated, Active))
    assert "length unknown" in line_about(section(text, "loops"), "%loop")
    kept = line_about(section(text, "kept"), "iterations of loop")
    assert "not known when the loop begins" in kept
    assert "8 bytes per call" in kept


def test_carried_value_is_kept_and_said_to_be():
    text = activerules.ir.explain(SEARCH, "f", (Duplicated, Active))
    assert "carried from one iteration to the next" in line_about(section(text, "kept"), "%s")


def test_overwritten_memory_names_the_store():
    text = activerules.ir.explain(SQUARE_IN_PLACE, "f", (Duplicated,), Const)
    kept = line_about(section(text, "kept"), "%v")
    assert "overwritten by: store double %y, ptr %x" in kept


def test_errors_are_those_of_differentiate():
    with pytest.raises(ArityError, match="3 parameters"):
        activerules.ir.explain(EXP_OF_SCALED, "f", (Const,))


def test_package_exports_functions_not_modules():
    assert callable(activerules.ir.explain)
    assert callable(activerules.ir.differentiate)
    assert "activerules.ir.foreign.explain" in sys.modules


def test_a_function_that_is_only_optnone_noinline_is_read():
    """Without both its group of attributes is empty, which LLVM does not parse."""
    alone = SQUARE_IN_PLACE.replace(") {", ") #0 {") + "attributes #0 = { noinline optnone }\n"
    text = activerules.ir.explain(alone, "f", [Duplicated])
    assert text == activerules.ir.explain(SQUARE_IN_PLACE, "f", [Duplicated])


SINE_AND_COSINE = """
define double @f(double %x) {
  %sin.at = alloca double
  %cos.at = alloca double
  call void @sincos(double %x, ptr %sin.at, ptr %cos.at)
  %s = load double, ptr %sin.at
  %c = load double, ptr %cos.at
  %r = fmul double %s, %c
  ret double %r
}
declare void @sincos(double, ptr, ptr)
"""


def test_what_differentiate_rewrites_is_explained():
    text = activerules.ir.explain(SINE_AND_COSINE, "f", [Active])
    assert "@llvm.sin.f64(double %x)" in text
