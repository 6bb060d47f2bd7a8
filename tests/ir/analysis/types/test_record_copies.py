"""Where floats are in copies of records whose layout the caller declared."""

import pytest

from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.types.record_copies import record_fields
from activerules.ir.llvm.types import DOUBLE
from tests.ir.plan.planned import analyses_of

RECORD = Declared(((0, DOUBLE),), period=16, integers=frozenset({8}))
COPIES = """
declare noalias ptr @malloc(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @f(ptr %x, i64 %k) {
  %m = call ptr @malloc(i64 64)
  %n = mul i64 %k, STEP
  %from = getelementptr i8, ptr %x, i64 FROM
  call void @llvm.memcpy.p0.p0.i64(ptr %m, ptr %from, i64 32, i1 false)
  %to = getelementptr i8, ptr %m, i64 TO
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %x, i64 16, i1 false)
  %at = getelementptr i8, ptr %m, i64 AT
  store TYPE VALUE, ptr %at
  ret void
}
"""
PLAIN = {"STEP": 16, "FROM": 0, "TO": 16, "AT": 0, "TYPE": "double", "VALUE": "1.0"}


def fields(**changed):
    """What is known of the first of the two copies from `x` to `m`."""
    text = COPIES
    for key, value in (PLAIN | changed).items():
        text = text.replace(key, str(value))
    known = analyses_of(text, {"x": RECORD})
    copy = next(i for i in known.request.function.instructions() if "memcpy" in str(i.callee_name))
    group = {o for pointer in copy.operands[:2] for o in known.memory.objects(pointer)}
    return record_fields(copy, group, known.types)


def test_r1_copies_move_bytes_to_the_same_offset_in_a_record():
    assert fields() == (16, [(0, DOUBLE)])
    assert fields(FROM="%n") == (16, [(0, DOUBLE)])
    assert fields(FROM=8, TO=8, AT=8) == (16, [(8, DOUBLE)])


@pytest.mark.parametrize(
    "changed", [{"FROM": 8}, {"TO": 8}, {"STEP": 8, "FROM": "%n"}, {"STEP": 8, "TO": "%n"}]
)
def test_r1_copies_to_another_offset_leave_the_layout_unknown(changed):
    assert fields(**changed) is None


def test_r2_accesses_contradict_the_layout_or_do_not():
    integer = {"TYPE": "i64", "VALUE": "%k"}
    assert fields(**integer, AT=8) == (16, [(0, DOUBLE)])
    assert fields(**integer) is None
    assert fields(AT=8) is None
    assert fields(TYPE="float", VALUE="1.0") is None
