"""Instances: which pointers lead to what a site in a loop made in this iteration."""

from activerules.ir.analysis.memory.instances import Instances
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Instruction
from activerules.ir.llvm.parser import parse_module

MODULE = """
declare ptr @malloc(i64)
declare void @rule(ptr, ptr)
define double @f(ptr %list, i64 %n, i1 %c) {
entry:
  %slot = alloca ptr
  %other = call ptr @malloc(i64 16)
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %latch ]
  %before = phi ptr [ null, %entry ], [ %kept, %latch ]
  %early = load ptr, ptr %slot
  br i1 %c, label %make, label %latch
make:
  %new = call ptr @malloc(i64 16)
  store ptr %new, ptr %list
  store ptr %new, ptr %slot
  %second = getelementptr double, ptr %new, i64 1
  %listed = load ptr, ptr %list
  br i1 %c, label %walk, label %join
walk:
  %item = phi ptr [ %new, %make ], [ %next, %walk ]
  %next = getelementptr double, ptr %item, i64 1
  br i1 %c, label %walk, label %join
join:
  %either = phi ptr [ %other, %make ], [ %item, %walk ]
  %chosen = select i1 %c, ptr %second, ptr %either
  br label %latch
latch:
  %kept = phi ptr [ %before, %head ], [ %chosen, %join ]
  %older = getelementptr double, ptr %kept, i64 1
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %n
  br i1 %more, label %head, label %end
end:
  ret double 0.0
}
"""


def test_i1_an_object_is_the_newest_until_passed_on_or_stored():
    """What leads to the site only through this iteration is its newest object; what came through
    the start of an iteration, or memory, need not be."""
    function = parse_module(MODULE).functions["f"]
    named = {i.name: i for block in function.blocks for i in block.instructions if i.name}
    site = MemoryObject("allocation", named["new"])

    def writers(load: Instruction):
        """Of what is loaded here nothing is known."""
        yield load

    instances = Instances(control_flow(function), lambda pointer: [site], writers)
    pointers = [i for i in named.values() if i.type.is_pointer and i.opcode != "alloca"]
    newest = {i.name for i in pointers if instances.is_newest(i, site)}
    assert newest == {"new", "second", "item", "next"}
    only_there = Instances(instances.flow, lambda p: [] if p is named["other"] else [site], writers)
    assert only_there.is_newest(named["chosen"], site)
    assert not only_there.is_newest(named["kept"], site)
