"""What is known of the effects of compiled functions."""

import ctypes
import ctypes.util
import math

import numba
import numpy as np
import pytest
from numba import float64, types
from numba.extending import intrinsic

import activerules as ar
from activerules.numba_ext.target.capture import capture
from activerules.numba_ext.target.effects import is_repeatable
from numba_ext.target.rule_views import Keeping

VECTOR = types.Array(float64, 1, "C")
LIST = types.ListType(VECTOR)
HYPERBOLIC = ctypes.CDLL(ctypes.util.find_library("m")).cosh
HYPERBOLIC.restype, HYPERBOLIC.argtypes = ctypes.c_double, [ctypes.c_double]


@intrinsic
def add_atomically(typing_context, row, x):
    def codegen(context, builder, signature, args):
        row_data = context.make_array(row)(context, builder, args[0]).data
        builder.atomic_rmw("fadd", row_data, args[1], "monotonic")
        return context.get_dummy_value()

    return types.none(row, x), codegen


def sums(rows, x):
    total = 0.0
    for row in rows:
        total += row.sum()
    return total * math.sin(x)


def uses_matrices(rows, x):
    row = rows[0]
    matrix = np.outer(row, row) + np.eye(3)
    return np.linalg.norm(matrix @ matrix @ row) * x


def writes_a_product(rows, x):
    np.dot(np.eye(3), rows[0], rows[1])
    return x


def writes_a_number(rows, x):
    rows[0][0] = x
    return x


def replaces_an_array(rows, x):
    rows[0] = np.full(3, x)
    return x


def calls_what_is_unknown(rows, x):
    return HYPERBOLIC(x) + len(rows)


def adds_atomically(rows, x):
    add_atomically(rows[0], x)
    return x


@numba.njit
def of_a_row(row, n):
    state = row.copy()
    total = 0.0
    for _ in range(n):
        for k in range(row.size):
            state[k] = math.sin(state[k]) * row[0]
            total += state[k] ** 2
    return total


slope_of_a_row = ar.grad(of_a_row)


def calls_a_derivative(rows, x):
    return slope_of_a_row(rows[0], 3).sum() * x


def writes_into_a_shadow(rows, x):
    ar.autodiff(ar.Reverse, of_a_row, ar.Active, ar.Duplicated(rows[0], rows[1]), 3)
    return x


CASES = [  # function, only reads, may replace pointers
    (sums, True, False),
    (uses_matrices, True, False),
    (writes_a_product, False, False),
    (writes_a_number, False, False),
    (replaces_an_array, False, True),
    (calls_what_is_unknown, False, True),
    (adds_atomically, False, True),
    (calls_a_derivative, True, False),
    (writes_into_a_shadow, False, False),
]


@pytest.mark.parametrize(("function", "reads", "replaces"), CASES)
def test_e1_what_is_not_known_to_be_harmless_counts_as_a_write(function, reads, replaces):
    kept = numba.njit(function)
    program = numba.njit(lambda rows, x: kept(rows, x))
    (call,) = capture(program, (LIST, float64), rules=Keeping(kept)).marked.values()
    assert call.only_reads == reads
    assert call.replaces_pointers == replaces


def test_e1_a_call_of_unknown_code_is_not_repeated():
    assert is_repeatable(numba.njit(lambda x: math.sin(x)), (float64,))
    assert is_repeatable(numba.njit(lambda row: slope_of_a_row(row, 3)), (VECTOR,))
    assert not is_repeatable(numba.njit(lambda x: HYPERBOLIC(x)), (float64,))
    assert not is_repeatable(numba.njit(lambda x: x * np.random.random()), (float64,))


def adds_a_product(a, x, out):
    side = x - x[::-1]
    out[0] += np.dot(a @ x, side)
    return out[0]


def writes_by_a_callee(a, x, out):
    scaled_into(a[0], out)
    return out[0]


@numba.njit
def scaled_into(row, out):
    for k in range(len(out)):
        out[k] = 2.0 * row[k]


def writes_in_blocks(a, x, out):
    """LLVM gathers and scatters, as a subscript may count from the end."""
    for block in range(len(a)):
        for i in range(3 * block, min(3 * block + 3, len(out))):
            out[i] = math.sin(x[i])
    return out[0]


def writes_either(a, x, out):
    to = x if out[0] > 0.0 else out
    to[0] = a[0, 0]
    return to[0]


def writes_a_view(a, x, out):
    a.T[0][:] = x
    return out[0]


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (adds_a_product, "out"),
        (writes_by_a_callee, "out"),
        (writes_in_blocks, "out"),
        (writes_either, "x out"),
        (writes_a_view, "a"),
    ],
)
def test_e1_the_parameters_that_a_function_writes_through(function, written):
    kept = numba.njit(function)
    program = numba.njit(lambda a, x, out: kept(a, x, out))
    matrix = types.Array(float64, 2, "C")
    (call,) = capture(program, (matrix, VECTOR, VECTOR), rules=Keeping(kept)).marked.values()
    named = [a.name for a in call._compiled_function().arguments]
    for name in ("a", "x", "out"):
        (data,) = (k for k, each in enumerate(named) if each == f"arg.{name}.4")
        assert call.only_reads_through([data]) != (name in written.split())
