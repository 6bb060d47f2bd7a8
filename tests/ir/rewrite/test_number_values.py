"""Integers and addresses are computed once, and outside of loops: same results, fewer values."""

import random
from dataclasses import replace

import pytest

from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Function
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.rewrite.number_values import number_values
from tests.ir.analysis.loops.test_dependence import SIZES, parsed
from tests.ir.harness import compile_text
from tests.ir.interpreter import Interpreter
from tests.ir.nests import Nest, RangeNest


def memory_after(function: Function, sizes: object) -> object:
    run = Interpreter(function)
    assert run.run([("a", 0), *sizes])
    return run.memory


def compute_twice(function: Function, random: random.Random) -> None:
    """Let a second instruction compute the value of an integer, for some of its users."""
    twins = {}
    for block in function.blocks:
        for i in [i for i in block.instructions if i.opcode in {"add", "mul", "getelementptr"}]:
            twin = replace(i, name=f"{i.name}.twin", operands=[*i.operands], parent=None)
            block.insert(block.instructions.index(i), twin)
            twins[i] = twin
    for i in function.instructions():
        i.operands = [twins.get(o, o) if random.random() < 0.5 else o for o in i.operands]


@pytest.mark.parametrize("kind", [Nest, RangeNest])
def test_v1_the_same_results(kind: type) -> None:
    for seed in range(60):
        before, after = (parsed(kind(random.Random(seed)).text) for _ in range(2))
        size = len([*after.instructions()])
        compute_twice(after, random.Random(seed))
        number_values(after, control_flow(after))
        assert len([*after.instructions()]) <= size
        for sizes in SIZES:
            assert memory_after(after, sizes) == memory_after(before, sizes)


NEST = """define i64 @f(i64 %n, i64 %m) {
entry:
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %outer.latch ]
  %s = phi i64 [ 0, %entry ], [ %t.out, %outer.latch ]
  br label %inner
inner:
  %j = phi i64 [ 0, %outer ], [ %j.next, %inner.latch ]
  %t = phi i64 [ %s, %outer ], [ %t.next, %inner.latch ]
  %none = add i64 %j, 0
  %two = add i64 1, 1
  %once = mul i64 %n, %m
  %row = mul i64 %i, %m
  %here = add i64 %row, %none
  %odd = and i64 %here, %two
  %is.odd = icmp eq i64 %odd, %two
  br i1 %is.odd, label %yes, label %inner.latch
yes:
  %row.again = mul i64 %i, %m
  %here.again = add i64 %row.again, %j
  %only.here = xor i64 %here.again, %t
  br label %inner.latch
inner.latch:
  %found = phi i64 [ %once, %inner ], [ %only.here, %yes ]
  %t.next = add i64 %t, %found
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %m
  br i1 %more, label %inner, label %outer.latch
outer.latch:
  %t.out = phi i64 [ %t.next, %inner.latch ]
  %j.out = phi i64 [ %j.next, %inner.latch ]
  %after = add i64 %j.out, 1
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %n
  br i1 %again, label %outer, label %end
end:
  %result = phi i64 [ %t.out, %outer.latch ]
  %last = phi i64 [ %after, %outer.latch ]
  %sum = add i64 %result, %last
  ret i64 %sum
}
"""


def test_values_are_shared_folded_and_moved_out_of_loops() -> None:
    module = parse_module(NEST)
    function = module.functions["f"]
    number_values(function, control_flow(function))
    where = {i.name: i.owner.name for i in function.instructions()}
    assert where["once"] == "entry"
    assert where["row"] == "outer"
    assert where["here"] == "inner"
    assert where["only.here"] == "yes"
    assert not {"none", "two", "row.again", "here.again"} & where.keys()
    printed = print_module(module)
    expected, f = (compile_text(text, None).function("f") for text in (NEST, printed))
    for n, m in ((1, 1), (2, 5), (4, 3)):
        assert f(n, m) == expected(n, m)


def test_v2_values_leave_loops_through_phis() -> None:
    module = parse_module(NEST)
    function = module.functions["f"]
    flow = control_flow(function)
    number_values(function, flow)
    for i in function.instructions():
        for k, operand in enumerate(i.operands):
            loop = flow.loop_of(operand.parent) if getattr(operand, "parent", None) else None
            used = i.blocks[k] if i.opcode == "phi" else i.owner
            assert loop is None or used in loop.blocks


@pytest.mark.parametrize("other", ["sub i64 %i, %m", "add nsw i64 %i, %m", "add i64 %i, %n"])
def test_what_differs_is_not_shared(other: str) -> None:
    text = NEST.replace("%row = mul i64 %i, %m", "%row = add i64 %i, %m")
    module = parse_module(text.replace("%row.again = mul i64 %i, %m", f"%row.again = {other}"))
    function = module.functions["f"]
    number_values(function, control_flow(function))
    assert {"row", "row.again"} <= {i.name for i in function.instructions()}
