"""A loop that runs twice has a counter again, and does in both iterations what it did."""

import numpy as np
import pytest
from numba import njit

from activerules.ir.analysis.loops.trip_counts import analyse_loops
from activerules.ir.analysis.memory.bounds import bounds_of
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.types import I1
from activerules.ir.normal.two_iterations import count_again
from activerules.testing import check_grads
from tests.ir.interpreter import Interpreter

LOOP = """
define void @f(ptr %a, ptr %b) {{
entry:
  br label %loop
loop:
  %second = phi i1 [ {first}, %entry ], [ {later}, %loop ]
  {phi}
  %p = getelementptr i8, ptr %a, i64 {used}
  %x = load double, ptr %p
  %y = fadd double %x, 1.0
  store double %y, ptr %p
  {branch}
end:
  ret void
}}
"""
BRANCHES = {
    "true": "br i1 %second, label %end, label %loop",
    "false": "br i1 %second, label %loop, label %end",
}


def left_by(function):
    run = Interpreter(function)
    run.run([("a", 0), ("b", 0)])
    return run.memory


def rewritten(first="false", later="true", values=("0", "8"), leaves="true"):
    phi = "%i = phi i64 [ {}, %entry ], [ {}, %loop ]".format(*values) if values else ""
    used = "%i" if values else "16"
    text = LOOP.format(first=first, later=later, phi=phi, used=used, branch=BRANCHES[leaves])
    before = left_by(parse_module(text).functions["f"])
    module = parse_module(text)
    count_again(module)
    (function,) = module.defined()
    assert left_by(function) == before
    return function


def trip_count_of(function):
    flow = control_flow(function)
    returns = analyse_returns(function, flow, status=False)
    (facts,) = analyse_loops(flow, returns).values()
    return facts.trip_count


@pytest.mark.parametrize("leaves", ["true", "false"])
@pytest.mark.parametrize("values", [("0", "8"), ("24", "16"), ("-8", "8"), None])
def test_x1_both_iterations_are_as_before(leaves, values):
    stays = "false" if leaves == "true" else "true"
    function = rewritten(stays, leaves, values, leaves)
    assert trip_count_of(function) is not None
    assert all(i.opcode != "phi" or i.type != I1 for i in function.instructions())


@pytest.mark.parametrize("values", [("0", "8"), ("8", "0")])
def test_its_values_have_bounds(values):
    function = rewritten(values=values)
    (i,) = (i for i in function.instructions() if i.ref == "%i")
    assert bounds_of(i) == (0, 8)


def test_a_loop_that_runs_once_is_left_as_it_is():
    function = rewritten("true", "true")
    assert trip_count_of(function) is None


RECORD = np.dtype([("m", np.float64, (2, 2)), ("k", np.int64)], align=True)


@njit
def in_records(x):
    records = np.zeros(len(x) - 1, dtype=RECORD)
    for n in range(len(records)):
        records[n]["k"] = n
        for i in range(2):
            for j in range(2):
                records[n]["m"][i, j] = x[i] * x[j + 1]
    total = 0.0
    for n in range(len(records)):
        total += records[n].m[1, 0] * records[n].k * records[n].m.sum()
    return total


def test_matrices_of_two_rows_in_records_have_derivatives():
    check_grads(in_records, (np.array([0.5, -1.5, 2.0, 0.3]),))
