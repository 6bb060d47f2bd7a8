"""Functions that call values, in the text of a module."""

import numpy as np
import pytest

from activerules.ir.text.called_values import CALL, FOREIGN, KNOWN, with_called_values
from tests.ir.harness import Compiled

MODULE = f"""
declare i32 @{CALL}0123(ptr, double, ptr)

declare i1 @{KNOWN}()
FOREIGN
define i32 @"square (a value)"(ptr noalias %ret, double %x) {{
  %y = fmul double %x, %x
  store double %y, ptr %ret
  ret i32 0
}}

define i32 @twice(ptr %ret, double %x) {{
  %y = fadd double %x, %x
  store double %y, ptr %ret
  ret i32 0
}}

define i32 @of_another_type(ptr %ret, i64 %n) {{
  ret i32 0
}}

define i32 @f(ptr %ret, double %x, i64 %k) {{
  %chosen = icmp eq i64 %k, 0
  %either = select i1 %chosen, ptr @"square (a value)", ptr @twice
  %third = icmp eq i64 %k, 2
  %any = select i1 %third, ptr @of_another_type, ptr %either
  %status = call i32 @{CALL}0123(ptr %ret, double %x, ptr %any)
  ret i32 %status
}}

define i1 @known() {{
  %known = call i1 @{KNOWN}()
  CALL
  ret i1 %known
}}
"""
OWN = MODULE.replace("FOREIGN", "").replace("CALL", "")
OTHERS = MODULE.replace("FOREIGN", f"declare void @{FOREIGN}()\n").replace(
    "CALL", f"call void @{FOREIGN}()"
)


@pytest.mark.parametrize(("k", "status", "value"), [(0, 0, 9.0), (1, 0, 6.0), (2, -1, 0.0)])
def test_k1_functions_of_the_same_type_are_called_and_nothing_else_is(k, status, value):
    result = np.zeros(1)
    called = Compiled(with_called_values(OWN, closed=True)).function("f")
    assert called(result.ctypes.data, 3.0, k) == status
    assert result[0] == value


@pytest.mark.parametrize(
    ("text", "closed", "known"), [(OWN, True, True), (OWN, False, False), (OTHERS, True, False)]
)
def test_k2_the_functions_are_known_if_none_comes_from_elsewhere(text, closed, known):
    compiled = Compiled(with_called_values(text, closed=closed))
    assert compiled.function("known")() is known


def test_a_module_without_such_calls_stays_as_it_is():
    text = "declare void @f()\n"
    assert with_called_values(text, closed=True) == text
