"""Interior pointers: which of those that were chosen or loaded may point into the middle."""

from activerules.ir.analysis.memory.addresses import address_of
from activerules.ir.analysis.memory.interior import interior_pointers
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.parser import parse_module

MODULE = """
declare ptr @malloc(i64)
define void @f(ptr %list, i1 %c) {
entry:
  %a = call ptr @malloc(i64 64)
  %b = call ptr @malloc(i64 64)
  %item = getelementptr i8, ptr %b, i64 8
  store ptr %item, ptr %list
  br label %walk
walk:
  %start = phi ptr [ %a, %entry ], [ %start, %walk ]
  %moving = phi ptr [ %a, %entry ], [ %further, %walk ]
  %further = getelementptr i8, ptr %moving, i64 8
  %field = getelementptr i8, ptr %start, i64 16
  br i1 %c, label %walk, label %behind
behind:
  %same = phi ptr [ %start, %walk ]
  %renamed = phi ptr [ %field, %walk ]
  %sunk = select i1 %c, ptr %renamed, ptr %same
  %kept = freeze ptr %same
  %loaded = load ptr, ptr %list
  %chosen = select i1 %c, ptr %same, ptr %loaded
  ret void
}
"""


def test_p1_pointers_that_move_or_were_stored_from_the_middle_may_be_interior():
    module = parse_module(MODULE)
    blocks = module.functions["f"].blocks
    named = {i.name: i for block in blocks for i in block.instructions if i.name}
    a, b = (MemoryObject("allocation", named[name]) for name in "ab")
    objects = {named["b"]: {b}, named["item"]: {b}, named["loaded"]: {a, b}}
    interior = interior_pointers(
        (i for block in blocks for i in block.instructions),
        lambda value: objects.get(value, {a}) if value.type.is_pointer else set(),
        lambda pointer: address_of(pointer, module.types),
        lambda call: (),
    )
    into_a = {n for n in ("start", "moving", "sunk", "kept") if interior.may_be(named[n], a)}
    assert into_a == {"moving", "sunk"}
    assert interior.may_be(named["loaded"], b)
    assert not interior.may_be(named["loaded"], a)
    assert interior.may_be(named["chosen"], a), "it may be what was loaded, and that an item of b"
