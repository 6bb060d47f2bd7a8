"""Summaries of functions, against what they do."""

import pytest

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.summaries import ModuleSummaries, Variant
from activerules.ir.llvm.parser import parse_module

CALLED = """
declare void @unknown(ptr)
define void @g(ptr %p, ptr %q, ptr %r) {
  %x = load double, ptr %q
  %deep = load ptr, ptr %r
  store double %x, ptr %deep
  BODY
  ret void
}
"""


def summary(body, groups=(0, 1, 2)):
    module = parse_module(CALLED.replace("BODY", body))
    found = ModuleSummaries(module, EngineCalls(None))
    return found.of(Variant("g", groups, apart=True, status=False))


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("", set()),
        ("store double %x, ptr %p", {0}),
        ("%at = getelementptr double, ptr %q, i64 3\n  store double %x, ptr %at", {1}),
        ("call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 8, i1 false)", {0}),
    ],
)
def test_s1_a_summary_has_all_effects(body, written):
    found = summary(body)
    assert not found.everything
    assert {place.root for place in found.writes if not place.deep} == written
    assert {place.root for place in found.writes if place.deep} == {2}
    assert {1, 2} <= {place.root for place in found.reads}


def test_s1_unknown_code_has_every_effect():
    assert summary("call void @unknown(ptr %p)").everything


def test_s2_operands_of_one_group_are_one_object():
    body = "store double %x, ptr %p"
    assert {place.root for place in summary(body).writes if not place.deep} == {0}
    together = summary("store double %x, ptr %q", (0, 0, 2))
    assert {place.root for place in together.writes if not place.deep} == {0}
