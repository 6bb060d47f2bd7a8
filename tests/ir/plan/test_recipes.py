"""Which values the reverse sweep computes again."""

import pytest

from activerules.annotations.activity import Const, Duplicated
from activerules.ir.analysis.nodes import Primal
from tests.ir.plan.planned import plan_of

ENTRY_AT = """
define double @f(ptr %a, ptr %at) {{
  %i = load {i}
  %p = getelementptr double, ptr %a, i64 %i
  %v = load {v}
  %r = fmul double %v, %v
  ret double %r
}}
"""


@pytest.mark.parametrize(
    ("i", "v", "kept"),
    [
        ("i64, ptr %at", "double, ptr %p", set()),
        ("volatile i64, ptr %at", "double, ptr %p", {"i"}),
        ("i64, ptr %at", "volatile double, ptr %p", {"v"}),
        ("atomic i64, ptr %at monotonic, align 8", "double, ptr %p", {"i"}),
    ],
)
def test_what_others_may_write_is_not_read_again(i, v, kept):
    plan = plan_of(ENTRY_AT.format(i=i, v=v), [Duplicated, Const])
    assert {n.value.name for n in plan.cache.kept if isinstance(n, Primal)} == kept
