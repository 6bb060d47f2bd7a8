"""Shapes: H1 to H3, on a tree whose children are chosen between and whose nodes are passed on."""

import pytest

from activerules.ir.analysis.calls import EngineCalls
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.summaries import ModuleSummaries
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.types import DOUBLE, I64, PTR

# a node: double, i64, and pointers to two nodes
TREE = """
declare ptr @malloc(i64)
declare void @unknown(ptr)

define double @f(ptr %from.outside, i1 %which) {
entry:
  %root = call ptr @malloc(i64 32)
  %child = call ptr @malloc(i64 32)
  %left = getelementptr i8, ptr %root, i64 16
  %right = getelementptr i8, ptr %root, i64 24
  %side = select i1 %which, ptr %left, ptr %right
  store ptr %child, ptr %side
  store double 1.0, ptr %child
  %held = load ptr, ptr %from.outside
  %given = call ptr @malloc(i64 32)
  EXTRA
  %y = call double @g(ptr %root)
  ret double %y
}

define double @g(ptr %node) {
entry:
  %x = load double, ptr %node
  %at = getelementptr i8, ptr %node, i64 8
  %size = load i64, ptr %at
  %below = getelementptr i8, ptr %node, i64 24
  %next = load ptr, ptr %below
  %y = call double @g(ptr %next)
  ret double %y
}
"""


def shapes_of(name: str, extra: str = "", more: str = ""):
    module = parse_module(TREE.replace("EXTRA", extra) + more)
    f = module.functions["f"]
    summaries = ModuleSummaries(module, EngineCalls(None), f.arguments[:1])
    function = module.functions[name]
    values = {v.name: v for v in (*function.arguments, *function.instructions())}
    return summaries.shapes(function), values


def test_h1_h2_offsets_in_a_tree_count_from_the_start_of_any_node():
    for name, size, side in (("g", "at", "below"), ("f", "", "side")):
        shapes, values = shapes_of(name)
        if size:
            assert not shapes.may_hold(values[size], I64, "float")
            assert shapes.may_hold(values["node"], I64, "float")
            assert shapes.may_hold(values["next"], I64, "float")
        assert not shapes.may_hold(values[side], PTR, "float")
        assert shapes.may_hold(values[side], PTR, "pointer")


@pytest.mark.parametrize(
    "extra",
    [
        "call void @unknown(ptr %side)",
        "store ptr %root, ptr %from.outside",
        "store ptr %held, ptr %side",
        "store ptr %root, ptr %given\n  call void @unknown(ptr %given)",
    ],
)
def test_h3_nothing_is_known_of_memory_that_others_reach(extra: str):
    shapes, values = shapes_of("g", extra)
    assert shapes.may_hold(values["at"], I64, "float")


def test_copies_transfer_contents_to_the_new_offset():
    """As integers, or as bytes; the rest of the node is not touched by it."""
    for extra, at in (
        ("%bits = load i64, ptr %child\n  store i64 %bits, ptr %given", 0),
        ("%to = getelementptr i8, ptr %given, i64 8\n"
         "  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %child, i64 8, i1 false)", 8),
    ):  # fmt: skip
        probe = "".join(f"\n  %at{k} = getelementptr i8, ptr %given, i64 {k}" for k in (0, 8, 16))
        shapes, values = shapes_of("f", extra + probe)
        found = {k for k in (0, 8, 16) if shapes.may_hold(values[f"at{k}"], I64, "float")}
        assert found == {at}


def test_a_pointer_that_goes_down_is_anywhere_below():
    """Where it starts is not known: each round finds it eight bytes further in front."""
    down = """
define void @down(ptr %at) {
  store double 1.0, ptr %at
  %next = getelementptr i8, ptr %at, i64 -8
  call void @down(ptr %next)
  ret void
}
"""
    extra = "%size = load i64, ptr %root\n  %end = getelementptr double, ptr %given, i64 %size\n"
    shapes, values = shapes_of("f", f"{extra}  call void @down(ptr %end)", down)
    assert shapes.may_hold(values["given"], I64, "float")
    assert not shapes.may_hold(values["root"], PTR, "pointer")


RECORDS = """
declare ptr @malloc(i64)

define void @f(ptr %records, i64 %from, i64 %to) {
entry:
  %copy = call ptr @malloc(i64 64)
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr %records, i64 64, i1 false)
  %a = getelementptr [2 x i64], ptr %copy, i64 %from
  %b = getelementptr [2 x i64], ptr %copy, i64 %to
  %later = icmp slt i64 %from, %to
  %best = select i1 %later, ptr %a, ptr %b
  %alive = getelementptr i8, ptr %best, i64 8
  ret void
}
"""


def test_a_copy_of_declared_memory_has_its_layout():
    """A double and an i64 in each record."""
    module = parse_module(RECORDS)
    f = module.functions["f"]
    layout = {f.arguments[0]: Declared(((0, DOUBLE),), 16)}
    shapes = ModuleSummaries(module, EngineCalls(None), (), layout).shapes(f)
    values = {i.name: i for i in f.instructions()}
    assert shapes.may_hold(values["best"], I64, "float")
    assert not shapes.may_hold(values["alive"], I64, "float")
    assert shapes.may_hold(f.arguments[0], I64, "float")
    assert not shapes.may_hold(f.arguments[0], PTR, "pointer")
