"""Counted pointers: C1, on two objects that are released at one place."""

import pytest

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.counted import only_counted
from activerules.ir.analysis.summaries import ModuleSummaries
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.types import I64

RELEASES = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare ptr @NRT_MemInfo_data_fast(ptr)
declare void @NRT_decref(ptr)
declare void @g(ptr)

define void @f(i1 %which) {
entry:
  %floats = call ptr @NRT_MemInfo_alloc_aligned(i64 16, i32 32)
  %integers = call ptr @NRT_MemInfo_alloc_aligned(i64 16, i32 32)
  %a = call ptr @NRT_MemInfo_data_fast(ptr %floats)
  %b = call ptr @NRT_MemInfo_data_fast(ptr %integers)
  store double 1.0, ptr %a
  store i64 1, ptr %b
  br i1 %which, label %one, label %end

one:
  br label %end

end:
  %last = phi ptr [ %floats, %entry ], [ %integers, %one ]
  %same = freeze ptr %last
  call void @NRT_decref(ptr %same)
  EXTRA
  ret void
}
"""


@pytest.mark.parametrize(
    ("use", "apart"),
    [
        ("", True),
        ("%null = icmp eq ptr %last, null", True),
        ("%data = call ptr @NRT_MemInfo_data_fast(ptr %last)", False),
        ("call void @g(ptr %last)", False),
    ],
)
def test_c1_objects_that_are_released_at_one_place_are_apart(use, apart):
    module = parse_module(RELEASES.replace("EXTRA", use))
    f = module.functions["f"]
    shapes = ModuleSummaries(module, EngineCalls(None), f.arguments).shapes(f)
    values = {i.name: i for i in f.instructions()}
    assert only_counted(module) == ({values["last"], values["same"]} if apart else {values["same"]})
    assert shapes.may_hold(values["b"], I64, "float") is not apart
    assert shapes.may_hold(values["a"], I64, "float")
