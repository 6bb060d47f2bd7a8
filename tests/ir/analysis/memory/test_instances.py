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


def analysed(text: str) -> tuple[Instances, dict[str, Instruction], MemoryObject]:
    """The instances of `%new` in the function of a module, if all pointers may point to it."""
    function = parse_module(text).functions["f"]
    named = {i.name: i for block in function.blocks for i in block.instructions if i.name}
    site = MemoryObject("allocation", named["new"])
    return (
        Instances(control_flow(function), lambda pointer: [site], lambda load: [load]),
        named,
        site,
    )


INNER = """
declare ptr @malloc(i64)
define void @f(ptr %p, i1 %c) {
entry:
  br label %head
head:
  %old = phi ptr [ %p, %entry ], [ %new, %latch ]
  %new = call ptr @malloc(i64 16)
  br label %walk
walk:
  %item = phi ptr [ %next, %walk ], [ %old, %head ]
  %next = getelementptr double, ptr %item, i64 1
  br i1 %c, label %walk, label %latch
latch:
  br i1 %c, label %head, label %end
end:
  ret void
}
"""


def test_i1_what_is_computed_around_a_loop_from_an_older_object_is_no_newer():
    """Whichever of the two operands of a phi comes first, and whichever value is asked for first:
    the answer about one must not rest on the other's, while that is being found."""
    for first, second in (("item", "next"), ("next", "item")):
        instances, named, site = analysed(INNER)
        assert not instances.is_newest(named[first], site)
        assert not instances.is_newest(named[second], site)


CARRIED = """
declare ptr @malloc(i64)
define void @f(ptr %p, ptr %list, i1 %c, i1 %d) {
entry:
  br label %head
head:
  %previous = phi ptr [ %p, %entry ], [ %kept, %latch ]
  %second = phi ptr [ %p, %entry ], [ %previous, %latch ]
  %same = phi ptr [ %p, %entry ], [ %sometimes, %latch ]
  %early = getelementptr double, ptr %previous, i64 1
  store ptr null, ptr %previous
  br i1 %d, label %make, label %end
make:
  %new = call ptr @malloc(i64 16)
  %late = getelementptr double, ptr %second, i64 1
  %either = select i1 %c, ptr %early, ptr %late
  %mixed = select i1 %c, ptr %early, ptr %new
  %loaded = load ptr, ptr %list
  br i1 %c, label %other, label %latch
other:
  br label %latch
latch:
  %kept = phi ptr [ %new, %make ], [ %new, %other ]
  %sometimes = phi ptr [ %new, %make ], [ %same, %other ]
  br i1 %c, label %head, label %end
end:
  %after = phi ptr [ %previous, %head ], [ %kept, %latch ]
  ret void
}
"""


def test_i2_what_an_iteration_is_given_is_older_once_the_site_was_passed():
    """Before that, it may be the newest; a choice is older if all that it chooses between are."""
    instances, named, site = analysed(CARRIED)
    end = named["loaded"].owner.terminator
    older = {n for n in named if n != "new" and instances.is_older(named[n], site, end)}
    assert older == {"previous", "second", "same", "early", "late", "either"}
    before = next(i for i in named["previous"].owner.instructions if i.opcode == "store")
    assert not instances.is_older(named["previous"], site, before)


def test_i3_a_pointer_is_as_old_as_the_iterations_that_handed_it_on():
    """What is replaced only sometimes may be of any age, and so may what is loaded."""
    instances, named, site = analysed(CARRIED)
    ages = {name: instances.age(i, site) for name, i in named.items() if i.type.is_pointer}
    assert ages == {
        "new": 0,
        "kept": 0,
        "previous": 1,
        "early": 1,
        "mixed": 1,
        "after": 1,
        "second": 2,
        "late": 2,
        "either": 2,
        "same": None,
        "sometimes": None,
        "loaded": None,
    }
