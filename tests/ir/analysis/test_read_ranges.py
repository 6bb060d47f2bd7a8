"""What nests of loops read of an array, by execution in an interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import pytest

from activerules.annotations.activity import Const, Duplicated
from activerules.ir.analysis.loops.affine import Poly
from activerules.ir.analysis.read_ranges import ReadRange
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.plan.recipes import Recipes
from tests.ir.analysis.test_variation import Run, value_of
from tests.ir.plan.planned import plan_of

# rows and columns; with fewer than three, the inner loops do not run
SIZES = list(product((1, 2, 3, 6), (1, 2, 3, 7)))
FIVE_POINTS = ["%row, %j", "%row, %j.after", "%row, %j.before", "%above, %j", "%below, %j"]

INNER_LOOP = {
    "tested first": (
        "br label %j.entry",
        "%go = icmp slt i64 %j, %columns\n  br i1 %go, label %body, label %i.latch",
        "br label %j.head",
    ),
    "tested last": (
        "br i1 %some, label %j.entry, label %i.latch",
        "br label %body",
        "%more = icmp slt i64 %j.next, %columns\n  br i1 %more, label %j.head, label %i.latch",
    ),
    "after a branch": (
        """%odd = trunc i64 %i to i1
  br i1 %odd, label %odd.row, label %even.row
odd.row:
  br label %joined
even.row:
  br label %joined
joined:
  br i1 %some, label %j.entry, label %i.latch""",
        "br label %body",
        "%more = icmp slt i64 %j.next, %columns\n  br i1 %more, label %j.head, label %i.latch",
    ),
}


def nest(points: list[str], tested: str, leaves_for: str = "") -> str:
    """`w` from the products of the entries of `u` around it, before `u` is overwritten.

    leaves_for   the block for which the body may leave the nest
    """
    enter, first, last = INNER_LOOP[tested]
    loads = "\n".join(
        f"""  %at.{k} = add nsw i64 {point}
  %p.{k} = getelementptr double, ptr %u, i64 %at.{k}
  %x.{k} = load double, ptr %p.{k}, align 8
  %y.{k + 1} = fmul double %y.{k}, %x.{k}"""
        for k, point in enumerate(points)
    )
    leave = f"""%leave = fcmp ogt double %x.0, 3.0
  br i1 %leave, label %{leaves_for}, label %rest
rest:"""
    loads = loads.replace("%y.0", "2.0")
    return f"""define void @f(ptr noalias %u, ptr noalias %w, i64 %n, i64 %m) {{
entry:
  %rows = sub nsw i64 %n, 1
  %columns = sub nsw i64 %m, 1
  %any = icmp sgt i64 %rows, 1
  %some = icmp sgt i64 %columns, 1
  br i1 %any, label %i.entry, label %over
i.entry:
  br label %i.head
i.head:
  %i = phi i64 [ 1, %i.entry ], [ %i.next, %i.latch ]
  %row = mul nsw i64 %i, %m
  %above = sub nsw i64 %row, %m
  %i.next = add nsw i64 %i, 1
  %below = mul nsw i64 %i.next, %m
  {enter}
j.entry:
  br label %j.head
j.head:
  %j = phi i64 [ 1, %j.entry ], [ %j.next, {"%rest" if leaves_for else "%body"} ]
  {first}
body:
  %j.next = add nsw i64 %j, 1
  %j.after = add nsw i64 %j, 1
  %j.before = sub nsw i64 %j, 1
{loads}
  {leave if leaves_for else ""}
  %at = add nsw i64 %row, %j
  %q = getelementptr double, ptr %w, i64 %at
  store double %y.{len(points)}, ptr %q, align 8
  {last}
i.latch:
  %again = icmp slt i64 %i.next, %rows
  br i1 %again, label %i.head, label %over
over:
  br label %k.head
k.head:
  %k = phi i64 [ 0, %over ], [ %k.next, %k.head ]
  %s = getelementptr double, ptr %w, i64 %k
  %z = load double, ptr %s, align 8
  %t = getelementptr double, ptr %u, i64 %k
  %half = fmul double %z, 5.000000e-01
  store double %half, ptr %t, align 8
  %k.next = add nsw i64 %k, 1
  %next = icmp slt i64 %k.next, %n
  br i1 %next, label %k.head, label %end
end:
  ret void
fail:
  call void @abort()
  unreachable
}}
declare void @abort() noreturn
"""


def found(text: str) -> tuple[Any, dict[Instruction, ReadRange]]:
    """The plan, and the range of each load that has one."""
    plan = plan_of(text, [Duplicated, Duplicated, Const, Const])
    ranges = Recipes(plan).read_ranges
    loads = [i for i in plan.request.function.instructions() if i.opcode == "load"]
    return plan, {load: r for load in loads if (r := ranges.of(load)) is not None}


def runs(tested: str) -> Iterator[tuple[Run, dict[Instruction, ReadRange], tuple[int, int]]]:
    for points in (FIVE_POINTS, FIVE_POINTS[1:3], FIVE_POINTS[3:]):
        plan, ranges = found(nest(points, tested))
        assert len(ranges) == len(points)
        for sizes in SIZES:
            yield Run(plan), ranges, sizes


def holds(of: ReadRange, values: dict[Value, Any]) -> bool:
    return all(
        value_of(t, of, values) >= 0 if isinstance(t, Poly) else bool(values[t[0]]) == t[1]
        for t in of.tests
    )


@pytest.mark.parametrize("tested", INNER_LOOP)
def test_e1_each_load_reads_an_entry_of_the_range(tested: str) -> None:
    read = 0
    for run, ranges, sizes in runs(tested):

        def note(i: Instruction, run: Run = run, ranges=ranges) -> None:
            nonlocal read
            if i in ranges:
                of, values = ranges[i], run.interpreter.values
                assert values[of.base] == ("u", 0)
                first = min(value_of(p, of, values) for p in of.firsts)
                last = max(value_of(p, of, values) for p in of.lasts)
                assert first * 8 <= values[i.operands[0]][1] <= last * 8
                read += 1

        run(sizes, note)
    assert read > 200


@pytest.mark.parametrize("tested", INNER_LOOP)
def test_e2_where_the_tests_hold_the_first_and_the_last_entry_are_read(tested: str) -> None:
    outcomes = set()
    for run, ranges, sizes in runs(tested):
        addresses = set()

        def note(i: Instruction, run: Run = run, ranges=ranges, addresses=addresses) -> None:
            if i in ranges:
                addresses.add(run.interpreter.values[i.operands[0]][1])

        run(sizes, note)
        (of,) = set(ranges.values())
        values = run.interpreter.values
        if run.runs[of.loop]:
            outcomes.add(holds(of, values))
            if holds(of, values):
                assert min(addresses) == 8 * min(value_of(p, of, values) for p in of.firsts)
                assert max(addresses) == 8 * max(value_of(p, of, values) for p in of.lasts)
            else:
                assert not addresses
    assert outcomes == {True, False}


@pytest.mark.parametrize("tested", ["tested last", "after a branch"])
def test_one_range_for_the_nest(tested: str) -> None:
    _, ranges = found(nest(FIVE_POINTS, tested))
    (of,) = set(ranges.values())
    assert (of.loop.header.name, of.depth) == ("i.head", 2)


def test_none_for_one_load() -> None:
    assert not found(nest(FIVE_POINTS[:1] * 2, "tested last"))[1]


def test_e3_none_where_the_nest_may_be_left_early_but_for_an_error() -> None:
    assert not found(nest(FIVE_POINTS, "tested last", "over"))[1]
    assert found(nest(FIVE_POINTS, "tested last", "fail"))[1]


def test_a_load_that_does_not_always_run_belongs_to_the_range_it_reads_in() -> None:
    text = nest(["%row, %j", "%row, %j.before"], "tested last")
    guarded = text.replace(
        "  %at.1 = ",
        """  %first = icmp slt i64 %j, 3
  br i1 %first, label %rest, label %inside
inside:
  %at.1 = """,
    ).replace(
        "  %y.2 = fmul double %y.1, %x.1\n",
        """  %more.y = fmul double %y.1, %x.1
  br label %rest
rest:
  %y.2 = phi double [ %y.1, %body ], [ %more.y, %inside ]
""",
    )
    guarded = guarded.replace("[ %j.next, %body ]", "[ %j.next, %rest ]")
    outside = guarded.replace("%j.before = sub nsw i64 %j, 1", "%j.before = sub nsw i64 %j, 3")
    for text, members in ((guarded, 2), (outside, 0)):
        assert len(found(text)[1]) == members


def of_wide_rows(text: str) -> str:
    """The nest in an array with `n` columns, of which it reads the first `m`."""
    text = text.replace("mul nsw i64 %i, %m", "mul nsw i64 %i, %n")
    text = text.replace("mul nsw i64 %i.next, %m", "mul nsw i64 %i.next, %n")
    return text.replace("sub nsw i64 %row, %m", "sub nsw i64 %row, %n")


@pytest.mark.parametrize("tested", INNER_LOOP)
@pytest.mark.parametrize("points", [FIVE_POINTS, FIVE_POINTS[1:3]])
def test_e4_each_load_reads_its_entry_of_the_box(tested: str, points: list[str]) -> None:
    text = of_wide_rows(nest(points, tested))
    plan, ranges = found(text)
    (of,) = set(ranges.values())
    box = of.box
    assert (box is not None) == (of.loop.header.name == "i.head")
    places: set[int] = set()
    for sizes in SIZES if box is not None else ():
        run = Run(plan)

        def note(i: Instruction, run: Run = run) -> None:
            if i in ranges:
                values: dict[Any, Any] = {**run.interpreter.values, **run.interpreter.counters}

                def number(p: Poly) -> int:
                    return sum(c * prod(values[a] for a in m) for m, c in p.terms.items())

                entry = values[i.operands[0]][1] // 8
                place = entry - number(box.corner) - number(box.skipped[i])
                (axis,) = box.axes
                row, column = divmod(place, number(box.width))
                assert 0 <= row < number(axis.count)
                assert entry == number(box.corner) + row * number(axis.stride) + column
                assert number(axis.pitch) == number(box.width)
                places.add(place)

        run(sizes, note)
    assert len(places) > 20 or box is None


def test_e4_rows_of_which_little_is_read_are_copied_one_by_one() -> None:
    _, ranges = found(of_wide_rows(nest(FIVE_POINTS, "tested last")))
    (of,) = set(ranges.values())
    assert of.box is not None
    _, ranges = found(nest(FIVE_POINTS, "tested last"))
    (of,) = set(ranges.values())
    assert of.box is None
