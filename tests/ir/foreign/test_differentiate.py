"""`differentiate` from text: structs and pointers, names, what it adds to a module, and what it
refuses to be asked.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from activerules.errors import ActivityError, ArityError, MixedActivity, UnsupportedIR
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.generate.assemble import generate
from activerules.ir.llvm.parser import parse_module
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import Parameter, Request, Returned
from tests.ir.harness import Active, Const, Duplicated, Struct, check_gradient, compile_text

SQUARE = "define double @square(double %x) {\n  %r = fmul double %x, %x\n  ret double %r\n}\n"

STRUCT = """
%S = type { double, i64, ptr, float }
define double @f(ptr %s) {
entry:
  %count.at = getelementptr %S, ptr %s, i32 0, i32 1
  %data.at = getelementptr %S, ptr %s, i32 0, i32 2
  %single.at = getelementptr %S, ptr %s, i32 0, i32 3
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %sum = phi double [ 0.0, %entry ], [ %sum.next, %loop ]
  %data = load ptr, ptr %data.at
  %q = getelementptr double, ptr %data, i64 %k
  %v = load double, ptr %q
  %x = load double, ptr %s
  %single = load float, ptr %single.at
  %wide = fpext float %single to double
  %vx = fmul double %v, %x
  %vxw = fmul double %vx, %wide
  store double %vxw, ptr %q
  store double %vx, ptr %s
  %sum.next = fadd double %sum, %vxw
  %k.next = add i64 %k, 1
  %count = load i64, ptr %count.at
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %loop, label %end
end:
  ret double %sum.next
}
"""


def test_struct_of_mixed_fields_behind_a_pointer() -> None:
    layout = np.dtype([("x", "f8"), ("n", "i8"), ("data", "u8"), ("single", "f4"), ("", "i4")])
    array = np.zeros(1, layout)
    array["x"], array["n"], array["single"] = 0.7, 3, 0.5
    check_gradient(STRUCT, "f", [Duplicated], [Struct(array, {"data": np.array([0.3, -0.8, 1.1])})])


POINTER_LEFT = """
define double @f(ptr %rows, i64 %n, ptr %x) {
entry:
  store ptr %x, ptr %rows
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %sum = phi double [ 0.0, %entry ], [ %sum.next, %loop ]
  %at = getelementptr ptr, ptr %rows, i64 %i
  %row = load ptr, ptr %at
  %v = load double, ptr %row
  %square = fmul double %v, %v
  %sum.next = fadd double %sum, %square
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %end
end:
  ret double %sum.next
}
"""


def test_a_pointer_stored_in_memory_of_the_caller() -> None:
    rows = Struct(
        np.zeros(1, [("p", "u8"), ("q", "u8")]), {"p": np.array([0.3]), "q": np.array([0.8])}
    )
    check_gradient(POINTER_LEFT, "f", [Duplicated, Const, Duplicated], [rows, 2, np.array([0.55])])


def test_allocated_memory_left_to_the_caller_is_refused() -> None:
    allocated = "%x = call ptr @malloc(i64 8)\n  store double %v0, ptr %x"
    text = "declare ptr @malloc(i64)" + POINTER_LEFT.replace("ptr %x)", "double %v0)").replace(
        "entry:", f"entry:\n  {allocated}"
    )
    with pytest.raises(MixedActivity, match="left in memory of the caller"):
        differentiate(text, "f", [Duplicated, Const, Active])


QUOTED = """
%"my struct" = type { double, i64, ptr }
define double @"f x"(ptr %"the struct", double %0) {
"entry block":
  %"p q" = getelementptr %"my struct", ptr %"the struct", i32 0, i32 2
  %q = load ptr, ptr %"p q"
  %1 = load double, ptr %q
  %2 = load double, ptr %"the struct"
  %3 = fmul double %1, %2
  %4 = fmul double %3, %0
  ret double %4
}
"""


def test_quoted_and_unnamed_values() -> None:
    array = np.zeros(1, [("a", "f8"), ("n", "i8"), ("p", "u8")])
    array["a"] = 0.7
    arguments = [Struct(array, {"p": np.array([1.5])}), 0.4]
    check_gradient(QUOTED, "f x", [Duplicated, Active], arguments)


def test_several_edges_into_one_block() -> None:
    count = 300
    cases = " ".join(f"i64 {k}, label %b{k}" for k in range(count))
    blocks = "\n".join(
        f"b{k}:\n  %v{k} = fmul double %x, {k}.5\n  br label %end" for k in range(count)
    )
    edges = ", ".join(f"[ %v{k}, %b{k} ]" for k in range(count))
    text = f"""
define double @f(double %x, i64 %n) {{
entry:
  switch i64 %n, label %end [ {cases} ]
{blocks}
end:
  %r = phi double [ %x, %entry ], {edges}
  %t = fmul double %r, %x
  ret double %t
}}
"""
    check_gradient(text, "f", [Active, Const], [0.3, 277])


def test_the_module_keeps_what_it_had_and_gains_three_functions() -> None:
    module = parse_module(differentiate(SQUARE, "square", [Active]))
    assert {"square", "square.gradient", "square.augmented", "square.reverse"} <= set(
        module.functions
    )
    assert str(module.functions["square.gradient"].result) == "{ double }"


def test_names_follow_the_stem() -> None:
    text = differentiate(SQUARE, "square", [Active], name="mine")
    assert compile_text(text).function("mine.gradient")


def test_two_derivatives_in_one_module() -> None:
    cube = """
define double @cube(double %x) {
  %y = call double @square(double %x)
  %r = fmul double %y, %x
  ret double %r
}
"""
    first = differentiate(SQUARE + cube, "square", [Active])
    check_gradient(first, "cube", [Active], [1.5])


def test_const_return_gives_no_seed() -> None:
    text = differentiate(SQUARE, "square", [Active], return_activity=Const)
    gradient = parse_module(text).functions["square.gradient"]
    assert [str(a.type) for a in gradient.arguments] == ["double"]


def test_nothing_active() -> None:
    gradient = parse_module(differentiate(SQUARE, "square", [Const])).functions["square.gradient"]
    assert str(gradient.result) == "void"


@pytest.mark.parametrize("activities", [[], [Active, Active]])
def test_one_activity_per_parameter(activities: list[type]) -> None:
    with pytest.raises(ArityError, match="1 parameters"):
        differentiate(SQUARE, "square", activities)


@pytest.mark.parametrize(
    ("parameter", "activity"),
    [
        ("double", Duplicated),
        ("double", "active"),
        ("i64", Active),
        ("i64", Duplicated),
        ("ptr", Active),
    ],
)
def test_activity_that_does_not_fit(parameter: str, activity: Any) -> None:
    text = f"define double @f({parameter} %x) {{\n  ret double 1.0\n}}\n"
    with pytest.raises(ActivityError, match="cannot be"):
        differentiate(text, "f", [activity])


def test_active_return_that_is_no_float() -> None:
    text = "define i64 @f(double %x) {\n  ret i64 1\n}\n"
    with pytest.raises(ActivityError, match="returns i64"):
        differentiate(text, "f", [Active], return_activity=Active)


@pytest.mark.parametrize("t", ["{ i64, double }", "[2 x { double }]", "%pair"])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_a_result_that_holds_floats_must_be_const(t: str, mode: str) -> None:
    text = f"%pair = type {{ double, i64 }}\ndefine {t} @f(ptr %p) {{\n  ret {t} undef\n}}\n"
    with pytest.raises(ActivityError, match="returns"):
        differentiate(text, "f", [Duplicated], mode=mode)
    differentiate(text, "f", [Duplicated], return_activity=Const, mode=mode)


def test_unknown_mode() -> None:
    with pytest.raises(ActivityError, match="mode"):
        differentiate(SQUARE, "square", [Active], mode="sideways")


@pytest.mark.parametrize("name", ["cube", "llvm.sin.f64"])
def test_function_that_is_not_defined(name: str) -> None:
    with pytest.raises(UnsupportedIR, match="defines no function"):
        differentiate(SQUARE + "declare double @llvm.sin.f64(double)\n", name, [Active])


def test_text_that_llvm_does_not_accept() -> None:
    with pytest.raises(UnsupportedIR, match="does not accept"):
        differentiate("define double @f(double %x) { ret i64 %x }", "f", [Active])


def test_function_that_never_returns() -> None:
    text = """
declare void @abort() noreturn
define double @f(double %x) {
  call void @abort()
  unreachable
}
"""
    with pytest.raises(UnsupportedIR, match="N3"):
        differentiate(text, "f", [Active])


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_derivatives_are_for_the_machine_of_the_function(mode: str) -> None:
    group = 'attributes #0 = { nounwind "target-cpu"="haswell" "target-features"="+avx2,+fma" }'
    text = SQUARE.replace("%x) {", "%x) #0 {") + group
    activity = Active if mode == "reverse" else Duplicated
    module = parse_module(str(llvm.parse_assembly(differentiate(text, "square", [activity], mode))))
    groups = dict(line.removeprefix("attributes ").split(" = ") for line in module.trailer)
    made = [f for name, f in module.functions.items() if name.startswith("square.")]
    assert made
    for function in made:
        (own,) = [groups[word] for word in function.suffix.split() if word in groups]
        assert '"target-cpu"="haswell" "target-features"="+avx2,+fma"' in own


EQUAL = """
define double @f(ptr %x) {
  %a = load double, ptr %x
  %h = fptrunc double %a to half
  %v = load <2 x double>, ptr %x, align 8
  %below = fcmp nnan ole double %a, 5.0e-1
  br i1 %below, label %other, label %none
other:
  %above = fcmp nnan oge double %a, 5.0e-1
  br i1 %above, label %both, label %none
both:
  %a2 = fmul double %a, %a
  %is.v = fcmp oeq <2 x double> %v, <double 5.0e-1, double 1.0>
  %is.0 = extractelement <2 x i1> %is.v, i64 0
  br i1 %is.0, label %vector, label %none
vector:
  %v0 = extractelement <2 x double> %v, i64 0
  %v2 = fmul double %v0, %v0
  %is.h = fcmp oeq half %h, 0xH3800
  br i1 %is.h, label %all, label %none
all:
  %h2 = fmul half %h, %h
  %w = fpext half %h2 to double
  %s = fadd double %a2, %v2
  %t = fadd double %s, %w
  ret double %t
none:
  ret double 0.0
}
"""


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_the_derivative_where_a_float_equals_a_constant_is_that_of_the_branch(mode: str) -> None:
    """LLVM would put the constant in its place."""
    compiled = compile_text(differentiate(EQUAL, "f", [Duplicated], mode))
    x, shadow = np.array([0.5, 2.0]), np.array([float(mode == "forward"), 0.0])
    call = compiled.function("f.forward" if mode == "forward" else "f.gradient")
    result = call(x.ctypes.data, shadow.ctypes.data, *([1.0] if mode == "reverse" else []))
    assert (shadow[0] if mode == "reverse" else result) == 3.0


ALWAYS_FAILS = """
define i32 @f(ptr %x, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %place = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %place
  %w = fmul double %v, %v
  store double %w, ptr %place
  %large = fcmp ogt double %v, 9.0
  br i1 %large, label %end, label %latch
latch:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 1
}
"""


def test_a_function_that_always_fails_has_nothing_to_reverse():
    module = parse_module(ALWAYS_FAILS)
    x, n = module.functions["f"].arguments
    parameters = (Parameter(x, "duplicated", "x"), Parameter(n, "const", "n"))
    plan = make_plan(Request(module, module.functions["f"], "f", parameters, Returned("status")))
    functions, _, _ = generate(plan)
    assert [f.name for f in functions] == ["f.augmented", "f.reverse", "f.gradient"]


BY_VALUE = """
%pair = type { double, double }
define double @f(ptr byval(%pair) align 8 %p) {
  %q = getelementptr %pair, ptr %p, i64 0, i32 1
  %x = load double, ptr %p
  %square = fmul double %x, %x
  store double %square, ptr %p
  %changed = load double, ptr %p
  %y = load double, ptr %q
  %r = fmul double %changed, %y
  ret double %r
}
"""


def test_a_struct_that_the_function_itself_takes_by_value() -> None:
    """Its derivative takes a pointer, and what is written goes into a copy."""
    gradient = compile_text(differentiate(BY_VALUE, "f", [Duplicated]), None).function("f.gradient")
    pair, shadow = np.array([2.0, 3.0]), np.array([0.5, 0.25])
    gradient(pair.ctypes.data, shadow.ctypes.data, 1.0)
    np.testing.assert_array_equal(pair, [2.0, 3.0])
    np.testing.assert_array_equal(shadow, [0.5 + 12.0, 0.25 + 4.0])


def test_a_width_is_positive() -> None:
    with pytest.raises(ActivityError, match=r"(?s)a width of 0.*a positive width"):
        differentiate(SQUARE, "square", [Active], width=0)
