"""The normal form: what breaks a rule is refused by the name of that rule."""

import pytest

from activerules.annotations.activity import Active
from activerules.errors import UnsupportedIR
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.normal_form import check, tidy

FUNCTION = """
declare i32 @setjmp(ptr)
define double @f(ptr %p, double %x, i64 %n, i1 %c) {{
entry:
{body}
}}
"""
RETURN = "  ret double %x"


def checked(body):
    function = parse_module(FUNCTION.format(body=body)).functions["f"]
    tidy(function)
    flow = control_flow(function)
    check(function, flow, flow.order)
    analyse_returns(function, flow, status=False)


def refused(rule, body):
    checked(RETURN)
    with pytest.raises(UnsupportedIR, match=rule):
        checked(body)


def test_n1_every_value_and_block_has_a_name():
    body = "  %1 = fadd double %x, %x\n  br label %2\n2:\n  ret double %1"
    function = parse_module(FUNCTION.format(body=body)).functions["f"]
    tidy(function)
    assert all(block.name for block in function.blocks)
    values = [*function.arguments, *function.instructions()]
    assert all(v.name for v in values if str(v.type) != "void")


@pytest.mark.parametrize(
    "line",
    [
        "%old = atomicrmw fadd ptr %p, double %x seq_cst",
        "fence seq_cst",
        "%at = call ptr @llvm.frameaddress.p0(i32 0)",
    ],
)
def test_n2_other_opcodes_are_refused(line):
    refused("N2", f"  {line}\n{RETURN}")


def test_n3_several_returns_are_refused():
    refused("N3", f"  br i1 %c, label %a, label %b\na:\n{RETURN}\nb:\n{RETURN}")


@pytest.mark.parametrize(
    "body",
    [
        # two latches; no preheader; an exit that is reached from outside
        "  br label %a\na:\n  br i1 %c, label %b, label %d\nb:\n  br label %a\n"
        "d:\n  br i1 %c, label %a, label %e\ne:\n  ret double %x",
        "  br i1 %c, label %a, label %b\nb:\n  br label %a\na:\n  br i1 %c, label %a, label %e\n"
        "e:\n  ret double %x",
        "  br i1 %c, label %a, label %e\na:\n  br label %d\nd:\n  br i1 %c, label %d, label %e\n"
        "e:\n  ret double %x",
    ],
)
def test_n4_loops_of_another_form_are_refused(body):
    refused("N4", body)


def test_n5_a_switch_is_refused():
    refused("N5", f"  switch i64 %n, label %a [ i64 1, label %b ]\na:\n  br label %b\nb:\n{RETURN}")


def test_n6_a_call_that_returns_twice_is_refused():
    refused("N6", f"  %again = call i32 @setjmp(ptr %p)\n{RETURN}")


@pytest.mark.parametrize(
    "body",
    [
        f"  %v = load <2 x double>, ptr %p\n{RETURN}",
        f"  %row = alloca double, i64 %n\n{RETURN}",
        f"  br label %a\na:\n  %row = alloca double\n{RETURN}",
        f"  br i1 %c, label %a, label %b\na:\n  br i1 %c, label %b, label %e\n"
        f"b:\n  br label %a\ne:\n{RETURN}",
    ],
)
def test_n7_vectors_growing_stacks_and_irreducible_loops_are_refused(body):
    refused("N7", body)


def test_n7_the_call_that_keeps_vectors_whole_is_named():
    """Not the first instruction on vectors, which could be taken apart, nor a sum of lanes."""
    text = """
declare <2 x double> @llvm.vector.reverse.v2f64(<2 x double>)
declare double @llvm.vector.reduce.fadd.v2f64(double, <2 x double>)
define double @f(double %x) {
  %v = insertelement <2 x double> zeroinitializer, double %x, i64 0
  %s = call double @llvm.vector.reduce.fadd.v2f64(double %x, <2 x double> %v)
  %w = call <2 x double> @llvm.vector.reverse.v2f64(<2 x double> %v)
  %y = extractelement <2 x double> %w, i64 1
  %r = fmul double %y, %s
  ret double %r
}
"""
    with pytest.raises(UnsupportedIR, match=r"N7: .*\n.*\n.*llvm\.vector\.reverse"):
        differentiate(text, "f", [Active])
