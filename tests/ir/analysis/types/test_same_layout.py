"""Memory that is copied as a whole, and memory that is copied to other offsets."""

import pytest

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.analysis.summaries import CallsIn, ModuleSummaries
from activerules.ir.analysis.types.same_layout import is_same_layout
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from tests.ir.memory_of import memory_of

MODULE = """
declare ptr @malloc(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @copy(ptr %to, ptr %from) noinline {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 32, i1 false)
  ret void
}
define double @f(ptr %to, ptr %from, i64 %k) {
  %new = call ptr @malloc(i64 32)
  %to.1 = getelementptr i8, ptr %to, i64 8
  %from.1 = getelementptr i8, ptr %from, i64 8
  %from.k = getelementptr i8, ptr %from, i64 %k
  COPY
  ret double 0.0
}
"""


def copied(target, source):
    return f"call void @llvm.memcpy.p0.p0.i64(ptr %{target}, ptr %{source}, i64 16, i1 false)"


@pytest.mark.parametrize(
    ("copy", "same"),
    [
        (copied("to", "from"), True),
        (copied("to.1", "from.1"), True),
        (copied("to", "from.1"), False),
        (copied("to", "from.k"), False),
        ("call void @copy(ptr %to, ptr %from)", False),
        (copied("new", "new"), True),
    ],
)
def test_l1_every_copy_moves_bytes_to_the_offset_they_had(copy, same):
    module, calls = parse_module(MODULE.replace("COPY", copy)), EngineCalls(None)
    function = module.functions["f"]
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=False)
    callees = CallsIn(ModuleSummaries(module, calls), returns)
    memory = memory_of(
        module, function, flow, private=lambda a: False, disjoint=True, callees=callees
    )
    to, from_, _ = function.arguments
    group = memory.objects(to) | memory.objects(from_)
    assert is_same_layout(group, memory) is same
