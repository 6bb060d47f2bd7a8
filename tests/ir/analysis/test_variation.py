"""Where values change and are kept, by execution: random nests of loops in an interpreter."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

from activerules.annotations.activity import Const, Duplicated
from activerules.ir.analysis.loops.affine import Poly
from activerules.ir.analysis.read_ranges import ReadRange
from activerules.ir.analysis.variation import Keeping, Table, Variation
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.plan import recipes
from activerules.ir.plan.plan import Plan
from tests.ir.interpreter import Interpreter
from tests.ir.nests import ReadingNest
from tests.ir.plan.planned import plan_of
from tests.ir.test_nests import planned

SIZES = [(4, 5), (5, 3), (1, 4)]


class Run:
    """A program in the interpreter; `runs` tells how often each loop was entered, `steps` also how
    often it went on.
    """

    def __init__(self, plan: Plan) -> None:
        self.flow = plan.flow
        self.interpreter = Interpreter(plan.request.function)
        self.interpreter.flow = plan.flow
        self.runs: dict[Loop, int] = dict.fromkeys(plan.flow.loops, 0)
        self.steps: dict[Loop, int] = dict.fromkeys(plan.flow.loops, 0)
        self.interpreter.at_block = self._at_block

    def _at_block(self, block: Block) -> None:
        loop = self.flow.loop_of(block)
        if loop is not None and loop.header is block:
            self.steps[loop] += 1
            self.runs[loop] += self.interpreter.counters[loop] == 0

    def __call__(self, sizes: tuple[int, int], at_value: Callable[[Instruction], None]) -> None:
        names = [a.name for a in self.interpreter.function.arguments[:-2]]
        rng = random.Random(1)
        self.interpreter.memory = {
            (name, 8 * k): rng.random() for name in names for k in range(-400, 400)
        }
        self.interpreter.at_value = at_value
        assert self.interpreter.run([*((name, 0) for name in names), *sizes], limit=200_000)

    def around(self, value: Instruction) -> list[Loop]:
        loop = self.flow.loop_of(value.owner)
        return list(loop.ancestors()) if loop is not None else []


def runs(seeds: range) -> list[tuple[Plan, Variation, tuple[int, int]]]:
    found = []
    for seed in seeds:
        made: list[Variation] = []

        def variation(*facts: Any, made: list[Variation] = made) -> Variation:
            made.append(Variation(*facts))
            return made[-1]

        recipes.Variation, before = variation, recipes.Variation
        try:
            _, plan = planned(ReadingNest(random.Random(seed)).text, checked=False)
        finally:
            recipes.Variation = before
        found += [(plan, made[0], sizes) for sizes in SIZES]
    return found


RUNS = runs(range(100, 125))


class Same:
    """Collects values by keys, and asserts that each key has one value only."""

    def __init__(self) -> None:
        self.found: dict[object, Any] = {}
        self.repeated = 0

    def note(self, key: object, value: Any) -> None:
        self.repeated += key in self.found
        assert self.found.setdefault(key, value) == value, key


def test_w1_a_value_is_the_same_where_the_loops_it_changes_in_are() -> None:
    repeated = 0
    for plan, variation, sizes in RUNS:
        run, same = Run(plan), Same()

        def note(i: Instruction, run: Run = run, same: Same = same, known=variation) -> None:
            around = run.around(i)
            for k, loop in enumerate(around):
                if loop not in known.loops(i):
                    inside = [one for one in around[:k] if one in known.loops(i)]
                    counters = tuple(run.interpreter.counters[one] for one in inside)
                    key = (i, loop, run.runs[loop], counters)
                    same.note(key, run.interpreter.values[i])

        run(sizes, note)
        repeated += same.repeated
    assert repeated > 1000


def kept(plan: Plan) -> dict[Value, Keeping]:
    return {node.value: keeping for node, keeping in plan.keeping.items()}  # type: ignore[union-attr]


def test_w2_one_value_per_iteration_of_the_home_and_entry_of_the_table() -> None:
    repeated = tables = 0
    for plan, _, sizes in RUNS:
        run, same, keepings = Run(plan), Same(), kept(plan)
        tables += sum(keeping.table is not None for keeping in keepings.values())

        def note(i: Instruction, run: Run = run, same: Same = same, keepings=keepings) -> None:
            if i not in keepings:
                return
            home, table = keepings[i].home, keepings[i].table
            step = run.steps[home] if home is not None else 0
            turn = run.runs[table.loop] if table is not None else 0
            address = run.interpreter.values[table.pointer] if table is not None else None
            same.note((i, step, turn, address), run.interpreter.values[i])

        run(sizes, note)
        repeated += same.repeated
    assert tables > 3
    assert repeated > 1000


def test_w3_what_is_read_while_the_loop_of_a_table_runs_is_an_entry() -> None:
    read = 0
    for plan, _, sizes in RUNS:
        tables = {v: k.table for v, k in kept(plan).items() if k.table is not None}
        run = Run(plan)
        bounds: dict[tuple[Table, int], tuple[int, int]] = {}

        def note(i: Instruction, run: Run = run, tables=tables, bounds=bounds) -> None:
            nonlocal read
            if i not in tables:
                return
            table, values = tables[i], run.interpreter.values
            key = (table, run.runs[table.loop])
            if key not in bounds:
                first, *counts = (value_of(p, table, values) for p in (table.first, *table.counts))
                start = values[table.base][1] + first * table.size
                bounds[key] = start, start + prod(counts) * table.size
            start, end = bounds[key]
            skipped = value_of(table.skipped, table, values) * table.size
            assert start <= values[table.pointer][1] - skipped < end
            read += 1

        run(sizes, note)
    assert read > 100


def value_of(p: Poly, of: Table | ReadRange, values: dict[Value, Any]) -> int:
    """The value of a polynomial at the current point of a run."""
    total = 0
    for monomial, c in p.terms.items():
        for atom in monomial:
            c *= values[of.counters[atom] if isinstance(atom, Loop) else atom]  # type: ignore[index]
        total += c
    return total


_COLUMNS = (Duplicated, Duplicated, Const, Const)
COLUMNS = """define void @f(ptr noalias %u, ptr noalias %w, i64 %n, i64 %m) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %i.head, label %over
i.head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %i.latch ]
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %j.entry, label %i.latch
j.entry:
  br label %j.head
j.head:
  %j = phi i64 [ %i.next, %j.entry ], [ %j.next, %j.head ]
  %row = mul nsw i64 %j, %m
  %at = add nsw i64 %row, 1
  %p = getelementptr double, ptr %u, i64 %at
  %x = load double, ptr %p, align 8
  %q = getelementptr double, ptr %w, i64 %i
  %y = load double, ptr %q, align 8
  %product = fmul double %x, %y
  store double %product, ptr %q, align 8
  %j.next = add nuw nsw i64 %j, 1
  %again = icmp slt i64 %j.next, %n
  br i1 %again, label %j.head, label %j.exit
j.exit:
  br label %i.latch
i.latch:
  %next = icmp slt i64 %i.next, %n
  br i1 %next, label %i.head, label %i.exit
i.exit:
  br label %over
over:
  br label %k.head
k.head:
  %k = phi i64 [ 0, %over ], [ %k.next, %k.head ]
  %t = getelementptr double, ptr %u, i64 %k
  store double 5.000000e-01, ptr %t, align 8
  %k.next = add nuw nsw i64 %k, 1
  %on = icmp slt i64 %k.next, %m
  br i1 %on, label %k.head, label %end
end:
  ret void
}
"""


def test_w2_rows_whose_length_changes_have_no_table() -> None:
    whole = COLUMNS.replace("[ %i.next, %j.entry ]", "[ 0, %j.entry ]")
    text = whole.replace("mul nsw i64 %j, %m", "mul nsw i64 %j, %wide")
    text = text.replace("%i.next = add", "%wide = and i64 %i, 3\n  %i.next = add", 1)
    assert not [k for k in kept(plan_of(text, [*_COLUMNS])).values() if k.table is not None]
    assert [k for k in kept(plan_of(whole, [*_COLUMNS])).values() if k.table is not None]


def test_w3_a_table_of_a_column_has_an_entry_per_row() -> None:
    plan = plan_of(COLUMNS, [*_COLUMNS])
    (table,) = (k.table for k in kept(plan).values() if k.table is not None)
    for sizes in [(4, 7), (2, 1), (5, 3)]:
        run, places = Run(plan), dict[int, int]()

        def note(i: Instruction, run: Run = run, places: dict[int, int] = places) -> None:
            if i.opcode == "load" and i.operands[0] is table.pointer:
                values = run.interpreter.values
                first, skipped = (value_of(p, table, values) for p in (table.first, table.skipped))
                entry = values[table.pointer][1] // 8
                assert places.setdefault(entry - first - skipped, entry) == entry

        run(sizes, note)
        count = prod(value_of(p, table, run.interpreter.values) for p in table.counts)
        assert sorted(places) == list(range(count))
        assert count == sizes[0] - 1
