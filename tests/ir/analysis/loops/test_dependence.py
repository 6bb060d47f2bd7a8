"""What is claimed of integers and of addresses, against runs of random loop nests in place."""

from __future__ import annotations

import random
from typing import Any

import pytest

from activerules.ir.analysis.loops.affine import Poly
from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.llvm.cfg import Loop, control_flow
from activerules.ir.llvm.model import Argument, Function, Instruction
from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal import normal_form
from activerules.ir.rewrite.decide import decide
from activerules.ir.text.normalise import normalise
from tests.ir.interpreter import Interpreter
from tests.ir.nests import Nest, RangeNest

SIZES = [(4, 4), (5, 3), (3, 6), (1, 5), (4, 2), (0, 3), (6, 6), (2, 1), (5, 7)]


def parsed(text: str) -> Function:
    function = parse_module(normalise(text, "f")).functions["f"]
    normal_form.tidy(function)
    return function


def value(p: Poly, run: Interpreter) -> int:
    """A polynomial at a moment of a run."""
    total = 0
    for monomial, c in p.terms.items():
        for atom in monomial:
            c *= run.counters[atom] if isinstance(atom, Loop) else run.values[atom]
        total += c
    return total


def known(p: Poly, run: Interpreter) -> bool:
    """Whether everything a polynomial mentions has been computed (else it is multiplied by 0)."""
    return all(a in run.counters if isinstance(a, Loop) else a in run.values for a in p.atoms)


class Watch:
    """Checks I1 to I3 while a function runs, and records its accesses."""

    def __init__(self, function: Function, sizes: tuple[int, int], integers: Integers) -> None:
        self.run = Interpreter(function)
        self.integers = integers
        self.accesses: list[tuple[Instruction, int, dict[Loop, int]]] = []
        self.run.at_block = self._block
        self.run.at_value = self._value
        self.run.at_access = self._access
        self.loops = {loop.header: loop for loop in integers.flow.loops}
        pointers = [(a.name, 0) for a in function.arguments[:-2]]
        self.done = self.run.run([*pointers, *sizes])

    def _counters(self) -> dict[Loop, int]:
        # the interpreter has loops of its own
        return {self.loops[one.header]: n for one, n in self.run.counters.items()}

    def _at(self, p: Poly) -> int | None:
        here = Interpreter.__new__(Interpreter)
        here.values, here.counters = self.run.values, self._counters()
        return value(p, here) if known(p, here) else None

    def _block(self, block: Any) -> None:
        for p in self.integers.facts(block):
            number = self._at(p)
            assert number is None or number >= 0, block.name

    def _value(self, i: Instruction) -> None:
        if str(i.type) == "i64":
            number = self.run.values[i]
            exact, mod = self._at(self.integers.exact(i)), self._at(self.integers.poly(i))
            assert exact is None or exact == number, i.name
            assert mod is None or (mod - number) % (1 << 64) == 0, i.name

    def _access(self, i: Instruction, address: tuple[str, int]) -> None:
        self.accesses.append((i, address[1], self._counters()))


@pytest.mark.parametrize("block", range(3))
def test_d3_assumptions_are_made_for_answers_that_follow_from_them(block: int) -> None:
    made = 0
    for seed in range(block * 12, block * 12 + 12):
        function = parsed(Nest(random.Random(seed)).text)
        integers = Integers(control_flow(function), {}, function.arguments[1:])
        accesses = [i for i in function.instructions() if i.opcode in {"load", "store"}]
        for first in accesses:
            for second in accesses:
                dependence = Dependence(integers, may_assume=True)
                if dependence.met_later(first, [second]) is not None:
                    assert not dependence.assumptions
                made += len(dependence.assumptions)
    assert made


@pytest.mark.parametrize("kind", [Nest, RangeNest])
@pytest.mark.parametrize("block", range(6))
def test_d1_d2_claims_hold_in_every_run(block: int, kind: type[Nest]) -> None:
    claims = 0
    for seed in range(block * 12, block * 12 + 12):
        function = parsed(kind(random.Random(seed)).text)
        flow = control_flow(function)
        lengths = function.arguments[1:]
        if decide(function, Integers(flow, {}, lengths)):
            flow = control_flow(function)
        integers = Integers(flow, {}, lengths)
        loads = [i for i in function.instructions() if i.opcode == "load"]
        stores = [i for i in function.instructions() if i.opcode == "store"]
        dependence = Dependence(integers, may_assume=seed % 2 == 0)
        final = {
            (load, store)
            for load in loads
            for store in stores
            if dependence.met_later(load, [store]) is None
        }
        apart = {
            (load, store, loop)
            for load in loads
            for store in stores
            for loop in flow.loops
            if {load.owner, store.owner} <= loop.blocks
            if not dependence.met_in_loop(load, store, loop)
        }
        claims += len(final) + len(apart)
        for sizes in SIZES:
            watch = Watch(function, sizes, integers)
            assumed = all(watch._at(a.poly) >= 0 for a in dependence.assumptions)
            check_accesses(watch, final if assumed else set(), apart)
    assert claims > 20


def check_accesses(watch: Watch, final: set[Any], apart: set[Any]) -> None:
    for k, (first, address, counters) in enumerate(watch.accesses):
        for second, other, later in watch.accesses[k + 1 :]:
            if address != other:
                continue
            assert (first, second) not in final, (first.name, second.operands)
            for x, y in ((first, second), (second, first)):
                for loop in watch.loops.values():
                    if (x, y, loop) in apart:
                        around = [one for one in loop.ancestors() if one is not loop]
                        assert any(counters[one] != later[one] for one in around)


SQUARE = """
define void @f(ptr %a, i64 %n, i64 %m) {
entry:
  br label %outer
outer:
  %k = phi i64 [ 0, %entry ], [ %k.next, %outer.latch ]
  %k.next = add nsw i64 %k, 1
  %go = icmp slt i64 %k, %n
  br i1 %go, label %rows, label %end
rows:
  %i = phi i64 [ %k.next, %outer ], [ %i.next, %row.latch ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %columns, label %outer.latch
columns:
  %j = phi i64 [ %k.next, %rows ], [ %j.next, %column ]
  %some = icmp slt i64 %j, %n
  br i1 %some, label %column, label %row.latch
column:
  %top = mul i64 %k, %m
  %above = add i64 %top, %j
  %p = getelementptr double, ptr %a, i64 %above
  %pivot = load double, ptr %p
  %row = mul i64 %i, %m
  %here = add i64 %row, %j
  %q = getelementptr double, ptr %a, i64 %here
  %x = load double, ptr %q
  %y = fmul double %x, %pivot
  store double %y, ptr %q
  %j.next = add nsw i64 %j, 1
  br label %columns
row.latch:
  %i.next = add nsw i64 %i, 1
  br label %rows
outer.latch:
  br label %outer
end:
  ret void
}
"""


@pytest.mark.parametrize("may_assume", [False, True])
def test_rows_of_a_square_matrix_are_final_if_they_fit(may_assume: bool) -> None:
    function = parsed(SQUARE)
    lengths: list[Argument] = function.arguments[1:]
    integers = Integers(control_flow(function), {}, lengths)
    dependence = Dependence(integers, may_assume=may_assume)
    pivot, x = (i for i in function.instructions() if i.opcode == "load")
    (store,) = (i for i in function.instructions() if i.opcode == "store")
    assert dependence.met_later(x, [store]) is store
    assert (dependence.met_later(pivot, [store]) is None) is may_assume
    assert [a.text for a in dependence.assumptions] == ["+1*%m -1*%n >= 0"] * may_assume


CLAMPED = """
declare i64 @llvm.{minimum}.i64(i64, i64)
define void @f(ptr %a, i64 %n, i64 %m) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %rows, label %end
rows:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.latch ]
  %row = mul i64 %i, %m
  %none = icmp eq i64 %i, 0
  br i1 %none, label %row.latch, label %columns
columns:
  %j = phi i64 [ 0, %rows ], [ %j.next, %column.latch ]
  %other = mul i64 %j, %m
  %length = call i64 @llvm.{minimum}.i64(i64 %j, i64 %m)
  %empty = icmp eq i64 %length, 0
  br i1 %empty, label %column.latch, label %entries
entries:
  %k = phi i64 [ 0, %columns ], [ %k.next, %entries ]
  %here = add i64 %row, %k
  %p = getelementptr double, ptr %a, i64 %here
  %x = load double, ptr %p
  %there = add i64 %other, %k
  %q = getelementptr double, ptr %a, i64 %there
  %y = load double, ptr %q
  %z = fmul double %x, %y
  %k.next = add nuw nsw i64 %k, 1
  %last = icmp eq i64 %k.next, %length
  br i1 %last, label %column.latch, label %entries
column.latch:
  %sum = phi double [ 0.0, %columns ], [ %z, %entries ]
  %at = add i64 %row, %j
  %r = getelementptr double, ptr %a, i64 %at
  store double %sum, ptr %r
  %j.next = add nuw nsw i64 %j, 1
  %end.of.row = icmp eq i64 %j.next, %i
  br i1 %end.of.row, label %row.latch, label %columns
row.latch:
  %i.next = add nuw nsw i64 %i, 1
  %all = icmp eq i64 %i.next, %n
  br i1 %all, label %end, label %rows
end:
  ret void
}}
"""
"""`a[i, j] = (a[i, :j] * a[j, :j])[-1]`: the slices end at `min(j, m)`."""


@pytest.mark.parametrize("minimum", ["smin", "umin"])
def test_the_end_of_a_slice_is_a_minimum_of_two_numbers(minimum: str) -> None:
    function = parsed(CLAMPED.format(minimum=minimum))
    integers = Integers(control_flow(function), {}, function.arguments[1:])
    for sizes in SIZES:
        Watch(function, sizes, integers)
    dependence = Dependence(integers, may_assume=True)
    loads = [i for i in function.instructions() if i.opcode == "load"]
    (store,) = (i for i in function.instructions() if i.opcode == "store")
    assert len(loads) == 2
    assert all(dependence.met_later(load, [store]) is None for load in loads)
    # the last column is n - 2, as j < i < n
    assert [a.text for a in dependence.assumptions] == ["+1 +1*%m -1*%n >= 0"]
