"""Where in their objects pointers lie that are chosen between."""

import pytest

from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from tests.ir.memory_of import memory_of

# `a` and `b` begin with eight bytes of their own; items of 24 bytes follow
CHOSEN = """
declare ptr @malloc(i64)

define void @f(i1 %which, i64 %i, i64 %j, i64 %k) {
entry:
  %a = call ptr @malloc(i64 80)
  %b = call ptr @malloc(i64 80)
  %first = getelementptr i8, ptr %a, i64 FIRST
  %x = getelementptr [24 x i8], ptr %first, i64 %i
  %begin = getelementptr i8, ptr %a, i64 8
  %w = getelementptr [24 x i8], ptr %begin, i64 %k
  br i1 %which, label %one, label %two
one:
  %second = getelementptr i8, ptr %b, i64 8
  %y = getelementptr [24 x i8], ptr %second, i64 %j
  br label %both
two:
  %again = getelementptr i8, ptr %a, i64 8
  %z = getelementptr [24 x i8], ptr %again, i64 %k
  br label %both
both:
  %chosen = CHOICE
  %field = getelementptr i8, ptr %chosen, i64 16
  store ptr null, ptr %field
  ret void
}
"""
PHI = "phi ptr [ %y, %one ], [ %z, %two ]"


def offsets(choice: str, first: int = 8) -> list[tuple[int, int] | None]:
    """Offset and stride of `field` in each object it may point into."""
    text = CHOSEN.replace("CHOICE", choice).replace("FIRST", str(first))
    module = parse_module(text)
    f = module.functions["f"]
    memory = memory_of(module, f, control_flow(f))
    (field,) = (i for i in f.instructions() if i.name == "field")
    found = [memory.from_start(memory.address(field), o) for o in memory.objects(field)]
    return [a and (a.offset, a.stride) for a in found]


@pytest.mark.parametrize("choice", [PHI, "select i1 %which, ptr %x, ptr %w"])
def test_a_pointer_chosen_between_items_counts_from_the_start(choice):
    assert set(offsets(choice)) == {(24, 24)}


@pytest.mark.parametrize(("first", "stride"), [(16, 8), (20, 12), (32, 24)])
def test_where_the_items_are_shifted_the_stride_divides_the_shift(first, stride):
    (address,) = offsets("select i1 %which, ptr %x, ptr %w", first)
    assert address is not None
    assert address[1] == stride
    assert (24 - address[0]) % stride == 0
