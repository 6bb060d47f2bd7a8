"""Loops that find one index after the other become nests, and compute what they computed."""

import ctypes
from itertools import product

import numpy as np
import pytest

from activerules.ir.analysis.loops.trip_counts import analyse_loops
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal.index_nests import nest_indices
from activerules.ir.text.normalise import simple_loops
from tests.ir.harness import compile_text

# the indices, their order, what is carried along unchanged, and a way out of the middle
PROGRAM = """
define double @f(ptr %a, i64 %n, i64 %m) {
entry:
  %j.last = add i64 %m, -1
  %none = icmp eq i64 %m, 0
  %count = select i1 %none, i64 0, i64 %n
  br label %inner
inner:
  %i = phi i64 [ -1, %entry ], [ %i.next, %latch ]
  %j = phi i64 [ %j.last, %entry ], [ %j.next, %latch ]
  %s = phi double [ 1.0, %entry ], [ %s.next, %latch ]
  %older = phi double [ 0.5, %entry ], [ %s, %latch ]
  %j.one = add nsw i64 %j, 1
  %j.on = icmp slt i64 %j.one, %m
  br i1 %j.on, label %body, label %outer
outer:
  %i.one = add nsw i64 %i, 1
  %i.on = icmp slt i64 %i.one, %count
  br i1 %i.on, label %body, label %leave
body:
  %i.next = phi i64 [ %i, %inner ], [ %i.one, %outer ]
  %j.next = phi i64 [ %j.one, %inner ], [ 0, %outer ]
  %row = mul i64 %i.next, %m
  %at = add i64 %row, %j.next
  %p = getelementptr double, ptr %a, i64 %at
  %x = load double, ptr %p
  %before = sitofp i64 %j to double
  %half = fmul double %s, 5.0e-01
  %more = fadd double %half, %x
  %less = fmul double %before, %older
  %s.next = fsub double %more, %less
  %stop = fcmp ogt double %x, 9.0e+00
  br i1 %stop, label %out, label %latch
latch:
  br label %inner
out:
  %s.out = phi double [ %s, %body ]
  ret double %s.out
leave:
  %s.end = phi double [ %s, %outer ]
  %j.end = phi i64 [ %j.one, %outer ]
  %k = sitofp i64 %j.end to double
  %result = fadd double %s.end, %k
  ret double %result
}
"""


def nested(text):
    """The text with its indices nested, and whether anything was done."""
    module = parse_module(text)
    done = nest_indices(module)
    return simple_loops(print_module(module)) if done else text, done


def value(text, a, n, m):
    """The result of compiled `f`."""
    f = compile_text(text, None).function("f")
    return f(a.ctypes.data, ctypes.c_int64(n), ctypes.c_int64(m))


@pytest.mark.parametrize("stop", [None, 0, 4])
def test_m1_computes_the_same(stop):
    text, done = nested(PROGRAM)
    assert done
    for n, m in product(range(4), repeat=2):
        a = np.random.default_rng(n + 5 * m).normal(size=max(n * m, 1))
        if stop is not None and stop < len(a):
            a[stop] = 10.0
        assert value(text, a, n, m) == value(PROGRAM, a, n, m)


def test_lengths_are_known():
    """Of both loops, if nothing leaves them in the middle."""
    text = PROGRAM.replace("br i1 %stop, label %out, label %latch", "br label %latch")
    text = text.replace("out:\n  %s.out = phi double [ %s, %body ]\n  ret double %s.out\n", "")
    for program, known in ((text, {1: False}), (nested(text)[0], {1: True, 2: True})):
        function = parse_module(program).functions["f"]
        flow = control_flow(function)
        loops = analyse_loops(flow, analyse_returns(function, flow, status=False))
        assert {k.depth: v.trip_count is not None for k, v in loops.items()} == known


OTHERS = {
    # both indices go on at once: no loop in which one stays as it is
    "no outer index": ("[ %i, %inner ]", "[ %i.one.too, %inner ]"),
    # the outer test is computed from what the body computed
    "used outside": ("%k = sitofp i64 %j.end to double", "%k = sitofp i64 %i.one to double"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_are_left_alone(name):
    text = PROGRAM.replace(*OTHERS[name])
    text = text.replace("%j.on =", "%i.one.too = add nsw i64 %i, 1\n  %j.on =")
    assert not nested(text)[1]


def test_tests_that_do_more_are_left_alone():
    text = PROGRAM.replace("%i.on =", "store double 2.0, ptr %a\n  %i.on =")
    assert not nested(text)[1]
    text = PROGRAM.replace("%j.on =", "%q = sdiv i64 %j.one, %n\n  %j.on =")
    assert not nested(text)[1]
