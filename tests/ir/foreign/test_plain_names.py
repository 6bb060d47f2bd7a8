"""Names that LLVM prints with escapes: the derivatives have them, too."""

import pytest

from activerules.errors import UnsupportedIR
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.foreign.explain import explain
from activerules.ir.foreign.plain_names import printed
from activerules.ir.llvm.parser import parse_module
from tests.ir.harness import Active, compile_text

TEXT = r"""
$"f\22g" = comdat any
@"c\22" = constant double 2.0
@s = constant [4 x i8] c"a@\22b"
define double @"f\22g"(double %x) comdat {
  %c = load double, ptr @"c\22"
  %h = call double @"h\C3\B6"(double %x)
  %s = fmul double %h, %c
  ret double %s
}
define double @"h\C3\B6"(double %x) noinline {
  %s = fmul double %x, %x
  ret double %s
}
"""


CALLER = r"""
define double @slope(double %x) {
  %s = call { double } @"f\22g.gradient"(double %x, double 1.0)
  %d = extractvalue { double } %s, 0
  ret double %d
}
"""


def test_the_gradient_of_a_function_with_such_a_name():
    compiled = compile_text(differentiate(TEXT, 'f"g', [Active]) + CALLER)
    assert compiled.function("slope")(1.5) == 2.0 * 2.0 * 1.5


def test_e1_generated_functions_and_globals_keep_the_names():
    module = parse_module(differentiate(TEXT, 'f"g', [Active]))
    assert {r'"f\22g"', r'"f\22g.gradient"', r'"h\C3\B6"'} <= module.functions.keys()
    assert r'"c\22"' in module.globals
    assert differentiate(TEXT, r"f\22g", [Active]) == differentiate(TEXT, 'f"g', [Active])
    made = parse_module(differentiate(TEXT, "hö", [Active], name='my "own"'))
    assert r'"my \22own\22.gradient"' in made.functions


def test_errors_and_plans_say_the_names_of_the_module():
    with pytest.raises(UnsupportedIR, match=r'no function k"[\s\S]*"f\\22g"'):
        differentiate(TEXT, 'k"', [Active])
    assert explain(TEXT, 'f"g', [Active]).startswith(r'"f\22g"')


OWN = """
define {linkage} double @sin(double %x) noinline {{
  %s = fmul double %x, %x
  ret double %s
}}
define double @f(double %x) {{
  %s = call double @sin(double %x)
  ret double %s
}}
"""


@pytest.mark.parametrize(("linkage", "is_library"), [("internal", False), ("", True)])
def test_e2_a_local_function_is_not_the_librarys(linkage, is_library):
    text = differentiate(OWN.format(linkage=linkage), "f", [Active])
    assert ("@llvm.cos.f64(" in text) is is_library
    assert "sin" in parse_module(text).functions
    assert (
        differentiate(OWN.format(linkage="private"), "sin", [Active]).count("@sin.gradient(") == 1
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.b-c_1", "a.b-c_1"), ("1a", '"1a"'), ("a$b", '"a$b"'), ("ö\\\x01", r'"\C3\B6\\\01"')],
)
def test_names_are_printed_as_llvm_does(name, text):
    assert printed(name) == text
