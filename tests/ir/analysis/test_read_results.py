"""Whether the result of a marked call is read, and whether only to be returned."""

import pytest

from activerules.ir.analysis.read_results import may_be_read, only_returned
from activerules.ir.derivatives.rulecall import CallInfo
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module

TEXT = """
define i32 @f(ptr %retptr, ptr %excinfo, double %x) {{
entry:
  %result = alloca double
  store double 0.000000e+00, ptr %result
  %status = call i32 @marked(ptr %{into}, ptr %excinfo, double %x)
  {then}
  ret i32 0
}}

declare i32 @marked(ptr, ptr, double)
"""
LOADED = "%y = load double, ptr %result"
STORED = "store double %z, ptr %retptr"


def asked(then, *, kind="value", into="result"):
    """Whether the result may be read, and is only returned."""
    module = parse_module(TEXT.format(into=into, then=then))
    function = module.functions["f"]
    call = next(i for i in function.instructions() if i.opcode == "call")
    users = control_flow(function).users
    info = CallInfo("marked", "", (), kind, 8, (), "", False, False, False, None, (), False)
    returned = only_returned(call, info, users, function.arguments[:1])
    return may_be_read(call, info, users), returned


def test_r1_only_a_number_in_a_variable_of_the_caller_is_not_read():
    assert asked("") == (False, True)
    assert asked(LOADED)[0]
    assert asked("", into="retptr")[0]
    assert asked("", kind="memory")[0]
    assert not asked("", kind="none")[0]


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (f"{LOADED}\n %z = fadd double %y, %x\n {STORED}", True),
        (f"{LOADED}\n %z = fmul double %y, %x\n {STORED}", False),
        (f"{LOADED}\n %z = fneg double %y\n {STORED}\n %w = load double, ptr %retptr", False),
    ],
)
def test_a_sum_is_returned_without_the_value_and_a_product_is_not(then, expected):
    assert asked(then) == (True, expected)
