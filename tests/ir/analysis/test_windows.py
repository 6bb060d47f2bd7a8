"""Windows: what their loads read, by execution in an interpreter, and what is no window."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from activerules.ir.analysis.windows import Window
from activerules.ir.llvm.model import Block, Instruction
from activerules.ir.plan.plan import Plan
from tests.ir.harness import Const, Duplicated, check_gradient
from tests.ir.interpreter import Interpreter
from tests.ir.nests import PeriodicNest, WindowNest
from tests.ir.plan.planned import plan_of
from tests.ir.test_nests import planned

PLANS = [
    planned(kind(random.Random(seed)).text, checked=False)[1]
    for kind, seeds in ((WindowNest, range(40, 60)), (PeriodicNest, range(20)))
    for seed in seeds
]
SIZES = [(4, 5), (5, 3), (1, 4)]


class Run:
    """The accesses of a program: per execution of a loop, in which iteration which address."""

    def __init__(self, plan: Plan, sizes: tuple[int, int]) -> None:
        run = Interpreter(plan.request.function)
        run.flow = plan.flow
        self.windows = list(dict.fromkeys(plan.sums.windows.values()))
        self.runs = Counter({window: -1 for window in self.windows})
        self.reads: dict[tuple[Window, int], list[tuple[Instruction, int, tuple[str, int]]]] = {}
        self.writes: dict[tuple[Window, int], list[tuple[str, int]]] = {}
        self.iterations: Counter[tuple[Window, int]] = Counter()

        def at_block(block: Block) -> None:
            for window in self.windows:
                if window.loop.header is block:
                    self.runs[window] += run.counters[window.loop] == 0
                    self.iterations[window, self.runs[window]] += 1

        def at_access(i: Instruction, address: tuple[str, int]) -> None:
            for window in self.windows:
                if i.owner not in window.loop.blocks:
                    continue
                key = window, self.runs[window]
                if i.opcode == "store":
                    self.writes.setdefault(key, []).append(address)
                elif plan.sums.windows.get(i) is window:
                    read = (i, run.counters[window.loop], address)
                    self.reads.setdefault(key, []).append(read)

        run.at_block, run.at_access = at_block, at_access
        names = [a.name for a in run.function.arguments[:-2]]
        assert run.run([*((name, 0) for name in names), *sizes], limit=200_000)


RUNS = [Run(plan, sizes) for plan in PLANS for sizes in SIZES]


def test_w1_an_arm_reads_what_the_next_one_read_an_iteration_before():
    compared = 0
    for run in RUNS:
        for (window, _), reads in run.reads.items():
            arm_of = {load: k for k, arm in enumerate(window.arms) for load in arm}
            at = {(arm_of[load], t): address for load, t, address in reads}
            for (k, t), address in at.items():
                if (k + 1, t - 1) in at:
                    compared += 1
                    assert at[k + 1, t - 1] == address
    assert compared > 500


def test_w2_every_iteration_runs_each_load_once():
    compared = 0
    for run in RUNS:
        for (window, number), reads in run.reads.items():
            count = run.iterations[window, number]
            times = Counter((load, t) for load, t, _ in reads)
            loads = [load for arm in window.arms for load in arm]
            assert times == Counter({(load, t): 1 for load in loads for t in range(count)})
            compared += count
        assert set(run.iterations) <= set(run.reads)
    assert compared > 200


def test_w3_the_loop_writes_nothing_that_a_window_reads():
    written = 0
    for run in RUNS:
        for key, reads in run.reads.items():
            addresses = {address for _, _, address in reads}
            written += len(run.writes[key])
            assert addresses.isdisjoint(run.writes[key])
    assert written > 200


LOOP = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @f(ptr %a, ptr %b, i64 %n) {{
entry:
  br label %outer
outer:
  %k = phi i64 [ 0, %entry ], [ %k.next, %outer.latch ]
  br label %head
head:
  %i = phi i64 [ 1, %outer ], [ %next, %latch ]
  {body}
  br label %latch
latch:
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %head, label %outer.latch
outer.latch:
  %k.next = add nsw i64 %k, 1
  %again = icmp slt i64 %k.next, 2
  br i1 %again, label %outer, label %end
end:
  ret void
}}
"""
NEIGHBOURS = """
  %before = add nsw i64 %i, -1
  %p = getelementptr double, ptr %a, i64 %before
  %x = load double, ptr %p
  %q = getelementptr double, ptr %a, i64 %i
  %y = load double, ptr %q
  %z = fmul double %x, %y
  %r = getelementptr double, ptr %b, i64 %i
  store double %z, ptr %r
"""
BEHIND_A_CONDITION = """
  %even = icmp eq i64 %k, 1
  br i1 %even, label %then, label %latch
then:
"""
REFUSED = {
    "what it reads is written": ("ptr %r", "ptr %q"),
    "there is a gap": ("i64 %i, -1", "i64 %i, 2"),
    "it reads the same entry again": ("i64 %before", "i64 3"),
    "the distance is no number": ("i64 %i, -1", "i64 %i, %k"),
    "the step is no number": ("add nsw i64 %i, -1", "mul nsw i64 %i, %i"),
    "the next iteration reads all others": ("%x = load double, ptr %p", "%x = fadd double 0.5, 1."),
    "a load is volatile": ("%x = load", "%x = load volatile"),
    "some iterations do not read": ("\n  %before", BEHIND_A_CONDITION + "  %before"),
    "memory is copied": (
        "  %z",
        "  %s = getelementptr double, ptr %b, i64 7\n"
        "  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %b, i64 %n, i1 false)\n  %z",
    ),
}
ACTIVITIES = [Duplicated, Duplicated, Const]


def windows(text: str) -> list[int]:
    plan = plan_of(text, ACTIVITIES)
    return [len(window.arms) for window in dict.fromkeys(plan.sums.windows.values())]


def argument(text: str) -> str:
    return text.replace("(ptr %a, ptr %b", "(ptr noalias %a, ptr noalias %b")


def test_neighbours_are_a_window():
    text = argument(LOOP.format(body=NEIGHBOURS))
    assert windows(text) == [2]
    assert len(plan_of(text, ACTIVITIES).sums.windows) == 2
    numbers = np.random.default_rng(1)
    for n in (1, 2, 7):
        check_gradient(text, "f", ACTIVITIES, [*numbers.normal(size=(2, 9)), n])


EXCHANGE = """  %u = phi ptr [ %a, %entry ], [ {u}, %outer.latch ]
  %v = phi ptr [ %b, %entry ], [ {v}, %outer.latch ]
"""


@pytest.mark.parametrize(("u", "v", "arms"), [("%v", "%u", [2]), ("%v", "%v", [])])
def test_arrays_that_are_exchanged_have_windows(u, v, arms):
    text = argument(LOOP.format(body=NEIGHBOURS))
    text = text.replace("double, ptr %a", "double, ptr %u").replace(
        "double, ptr %b", "double, ptr %v"
    )
    text = text.replace("  br label %head\n", EXCHANGE.format(u=u, v=v) + "  br label %head\n", 1)
    assert windows(text) == arms
    numbers = np.random.default_rng(1)
    for n in (1, 2, 7):
        check_gradient(text, "f", ACTIVITIES, [*numbers.normal(size=(2, 9)), n])


PERIODIC = """
  %before = add nsw i64 %i, -1
  %first = icmp sle i64 %i, 0
  %left = select i1 %first, i64 8, i64 %before
  %p = getelementptr double, ptr %a, i64 %left
  %x = load double, ptr %p
  %q = getelementptr double, ptr %a, i64 %i
  %y = load double, ptr %q
  %after = add nsw i64 %i, 1
  %right = srem i64 %after, %n
  %s = getelementptr double, ptr %a, i64 %right
  %w = load double, ptr %s
  %xy = fmul double %x, %y
  %z = fmul double %xy, %w
  %r = getelementptr double, ptr %b, i64 %i
  store double %z, ptr %r
"""
NOT_PERIODIC = {
    "the second iteration is special, too": ("icmp sle i64 %i, 0", "icmp sle i64 %i, 1"),
    "the last iteration is special": ("icmp sle i64 %i, 0", "icmp sge i64 %i, 7"),
    "one entry is left out": ("i64 %i, -1", "i64 %i, -2"),
    "the loop may go on behind the period": ("srem i64 %after, %n", "srem i64 %after, 5"),
}
IF_ANY = "  %any = icmp sgt i64 %n, 0\n  br i1 %any, label %outer, label %end\nouter:"


def periodic(body: str) -> str:
    text = LOOP.format(body=body).replace("[ 1, %outer ]", "[ 0, %outer ]")
    return argument(text.replace("  br label %outer\nouter:", IF_ANY))


def test_periodic_neighbours_are_a_window():
    assert windows(periodic(PERIODIC)) == [3]
    numbers = np.random.default_rng(2)
    for n in (0, 1, 2, 3, 7):
        check_gradient(periodic(PERIODIC), "f", ACTIVITIES, [*numbers.normal(size=(2, 9)), n])


@pytest.mark.parametrize("why", NOT_PERIODIC)
def test_only_the_neighbour_that_is_periodic_is_in_the_window_where(why):
    old, new = NOT_PERIODIC[why]
    assert old in PERIODIC
    assert windows(periodic(PERIODIC.replace(old, new))) == [2]


@pytest.mark.parametrize("why", REFUSED)
def test_no_window_where(why):
    old, new = REFUSED[why]
    assert old in NEIGHBOURS
    text = argument(LOOP.format(body=NEIGHBOURS.replace(old, new)))
    assert windows(text) == []


def test_no_window_where_arguments_may_overlap():
    assert windows(LOOP.format(body=NEIGHBOURS)) == []


def test_no_window_in_a_loop_that_contains_another():
    text = argument(LOOP.format(body=NEIGHBOURS.replace("%i", "%k")))
    assert windows(text) == []


def test_a_window_that_is_long_is_cut():
    body = ["  %twice = mul nsw i64 %i, 2", "  %t0 = fadd double 0.5, 1.0"]
    for k in range(1, 11):
        body += [
            f"  %s{k} = add nsw i64 %twice, {2 * k}",
            f"  %p{k} = getelementptr double, ptr %a, i64 %s{k}",
            f"  %x{k} = load double, ptr %p{k}",
            f"  %t{k} = fmul double %t{k - 1}, %x{k}",
        ]
    body += ["  %r = getelementptr double, ptr %b, i64 %i", "  store double %t10, ptr %r"]
    text = argument(LOOP.format(body="\n".join(body)))
    assert windows(text) == [6, 4]
    a, b = np.random.default_rng(2).uniform(0.5, 1.5, size=(2, 40))
    check_gradient(text, "f", ACTIVITIES, [a, b, 7])
