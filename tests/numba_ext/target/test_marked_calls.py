"""Calls of functions with rules stay opaque, in Numba's calling convention, wherever they stand."""

import ctypes
import ctypes.util
import math
import operator
import re

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from numba import complex128, float32, float64, int64, types
from numba.experimental import jitclass

from activerules.errors import NotYetSupported
from activerules.numba_ext.target.capture import capture
from numba_ext.target.rule_views import NOTHING, Keeping

VECTOR = float64[::1]
MATRIX = float64[:, ::1]
COMPLEX = complex128[::1]

libm = ctypes.CDLL(ctypes.util.find_library("m"))
c_cosh = libm.cosh
c_cosh.argtypes = [ctypes.c_double]
c_cosh.restype = ctypes.c_double


@numba.njit
def affine(x, slope=2.0, offset=1.0):
    return slope * x + offset


@numba.njit
def positional(x):
    return affine(x, 3.0, 4.0)


@numba.njit
def defaults(x):
    return affine(x)


@numba.njit
def keywords(x):
    return affine(x, offset=5.0)


@numba.njit
def nested(x):
    return positional(x) + 1.0


@numba.njit
def apply(f, x):
    return f(x)


@numba.njit
def as_argument(x):
    return apply(affine, x)


@numba.njit
def in_comprehension(x):
    return sum([affine(x * i) for i in range(3)])


@numba.njit
def in_inner_function(x):
    def inner(y):
        return affine(y)

    return inner(x)


def make_closure(k):
    @numba.njit
    def closure(x):
        return affine(x) * k

    return closure


@numba.vectorize
def elementwise(x):
    return affine(x)


@numba.njit
def in_vectorized(a):
    return elementwise(a).sum()


@numba.njit(inline="always")
def inlined(x):
    return x * x


@numba.njit
def calls_inlined(x):
    return inlined(x) + 1.0


@numba.njit
def solves(a, b):
    return np.linalg.solve(a, b)


@numba.njit
def dots(a, b):
    return np.dot(a, b) + a.dot(b)


@numba.njit
def matmul(a, b):
    return (a @ b)[0]


@numba.njit
def sums_axis(a):
    return np.sum(a, axis=0)


@numba.njit
def gamma(x):
    return math.gamma(x)


@numba.njit
def ufunc_on_array(a):
    return np.sin(a) * 2.0


@numba.njit
def foreign(x):
    return c_cosh(x)


@numba.njit
def fill(a, x):
    a[0] = x


@numba.njit
def returns_nothing(a, x):
    fill(a, x)
    return a[0]


KEPT = [
    (positional, (float64,), affine),
    (defaults, (float64,), affine),
    (keywords, (float64,), affine),
    (nested, (float64,), affine),
    (as_argument, (float64,), affine),
    (in_comprehension, (float64,), affine),
    (in_inner_function, (float64,), affine),
    (make_closure(2.0), (float64,), affine),
    (in_vectorized, (VECTOR,), affine),
    (in_vectorized, (VECTOR,), elementwise),
    (calls_inlined, (float64,), inlined),
    (solves, (MATRIX, VECTOR), np.linalg.solve),
    (dots, (COMPLEX, COMPLEX), np.dot),
    (matmul, (MATRIX, VECTOR), operator.matmul),
    (sums_axis, (MATRIX,), np.sum),
    (gamma, (float64,), math.gamma),
    (ufunc_on_array, (VECTOR,), np.sin),
    (foreign, (float64,), c_cosh),
    (returns_nothing, (VECTOR, float64), fill),
]


def the_call(captured):
    (marked,) = captured.marked.values()
    return marked


@pytest.mark.parametrize(("program", "argtypes", "function"), KEPT)
def test_m1_marked_calls_of_functions_operators_and_ufuncs(program, argtypes, function):
    captured = capture(program, argtypes, rules=Keeping(function))
    marked = the_call(captured)
    assert marked.function is function
    module = llvm.parse_assembly(captured.text)
    declaration = module.get_function(marked.symbol)
    assert declaration.is_declaration
    primal = marked.library.get_function(marked.cpu_symbol)
    assert declaration.global_value_type == primal.global_value_type
    assert capture(program, argtypes, rules=NOTHING).marked == {}


def test_location_is_that_of_the_call():
    marked = the_call(capture(nested, (float64,), rules=Keeping(affine)))
    line = positional.py_func.__code__.co_firstlineno + 2
    assert marked.location == f"{__file__}:{line}"


def test_record_of_a_call_with_defaults():
    marked = the_call(capture(keywords, (float64,), rules=Keeping(affine)))
    assert marked.name == "affine"
    assert marked.argument_names == ("x", "slope", "offset")
    x, slope, offset = marked.signature.args
    assert (x, offset) == (float64, float64)
    assert isinstance(slope, types.Omitted)


def test_m4_one_symbol_per_argument_types():
    @numba.njit
    def program(x, y):
        return affine(x) + affine(y) + affine(x)

    captured = capture(program, (float64, float32), rules=Keeping(affine))
    assert len(captured.marked) == 2
    assert captured.text.count("call i32 @activerules.rule.") == 3


def test_dispatcher_as_argument_of_the_entry():
    captured = capture(apply, (types.Dispatcher(affine), float64), rules=Keeping(affine))
    assert the_call(captured).function is affine
    assert captured.arguments[0].slots[0].role == "dummy"


def test_m3_declaration_promises_nothing_about_memory():
    captured = capture(solves, (MATRIX, VECTOR), rules=Keeping(np.linalg.solve))
    symbol = the_call(captured).symbol
    (line,) = [i for i in captured.text.splitlines() if i.startswith("declare") and symbol in i]
    attributes = re.search(r"#\d+$", line)
    assert attributes is not None
    assert "noinline" in captured.text.split(f"attributes {attributes[0]} = ")[1].split("\n")[0]
    assert "memory(" not in line
    assert "readonly" not in line


def test_m3_status_other_than_zero_is_an_error():
    captured = capture(positional, (float64,), rules=Keeping(affine))
    status = re.search(r"(%\S+) = call i32 @activerules.rule", captured.text)
    assert status is not None
    assert re.search(rf"icmp ne i32 {re.escape(status[1])}, 0", captured.text)


def test_m6_arguments_are_in_the_order_of_the_parameters():
    @numba.njit
    def program(x, n):
        return affine(offset=n, x=x)

    x, slope, offset = the_call(
        capture(program, (float32, int64), rules=Keeping(affine))
    ).signature.args
    assert (x, offset) == (float32, int64)
    assert isinstance(slope, types.Omitted)


# --- what cannot be kept is captured by its body ---


@numba.njit
def maybe(x):
    if x > 0.0:
        return x
    return None


@numba.njit
def uses_maybe(x):
    y = maybe(x)
    return 0.0 if y is None else 2.0 * y


@numba.njit
def counts(x):
    for i in range(3):
        yield x * i


@numba.njit
def uses_generator(x):
    total = 0.0
    for y in counts(x):
        total += y
    return total


@pytest.mark.parametrize(("program", "function"), [(uses_maybe, maybe), (uses_generator, counts)])
def test_m2_results_that_are_not_plain_values(program, function):
    # Neither may its body be taken, which would lose the rule or the declaration.
    with pytest.raises(NotYetSupported, match="which has a rule or is inactive"):
        capture(program, (float64,), rules=Keeping(function))


@numba.njit
def items_in(iterator):
    count = 0
    for _ in iterator:
        count += 1
    return count


@numba.njit
def steps_through_indices(x):
    return x * items_in(np.ndindex(2, 3))


@numba.njit
def steps_through_pairs(x):
    return x * items_in(enumerate(np.ndindex(2, 3)))


@pytest.mark.parametrize("program", [steps_through_indices, steps_through_pairs])
def test_m2_iterators_that_this_target_steps_otherwise(program):
    # The CPU's code would go through one index more.
    with pytest.raises(NotYetSupported, match="with an iterator"):
        capture(program, (float64,), rules=Keeping(items_in))


def test_m2_what_the_cpu_cannot_compile_alone():
    # A type is an argument that only Numba's own implementation knows how to take.
    @numba.njit
    def program(n):
        return np.zeros(n, np.float32)

    captured = capture(program, (int64,), rules=Keeping(np.zeros))
    assert captured.signature.return_type == float32[::1]


@jitclass([("factor", float64)])
class Scaling:
    def __init__(self, factor):
        self.factor = factor

    def scaled(self, function, x):
        return self.factor * function(x)


@pytest.mark.parametrize("rules", [NOTHING, Keeping(affine)])
def test_a_function_passed_to_a_method_keeps_its_rule(rules):
    program = numba.njit(lambda x: Scaling(2.0).scaled(affine, x))
    captured = capture(program, (float64,), rules=rules)
    assert [call.function for call in captured.marked.values()] == rules.functions


# --- rules come and go ---


def test_a_method_that_takes_one_by_one_what_the_function_takes_as_a_tuple():
    def square(x):
        return x.reshape(2, 2)

    def turned(x):
        return x.transpose(1, 0)

    for program, function, argument in (
        (square, np.reshape, VECTOR),
        (turned, np.transpose, MATRIX),
    ):
        with pytest.raises(NotYetSupported, match=r"\(i, j\), where np\."):
            capture(numba.njit(program), (argument,), rules=Keeping(function))
        capture(numba.njit(program), (argument,), rules=NOTHING)
    kept = capture(numba.njit(lambda x: x.reshape((2, 2))), (VECTOR,), rules=Keeping(np.reshape))
    assert [call.function for call in kept.marked.values()] == [np.reshape]


def test_capture_c3_a_rule_registered_later_is_seen():
    rules = Keeping()
    assert capture(nested, (float64,), rules=rules).marked == {}
    rules.add(affine)
    assert the_call(capture(nested, (float64,), rules=rules)).function is affine
    rules.add(positional)
    assert the_call(capture(nested, (float64,), rules=rules)).function is positional


def test_a_function_with_a_rule_is_captured_as_a_call_of_it():
    captured = capture(affine, (float64,), rules=Keeping(affine))
    assert the_call(captured).function is affine
    assert captured.name == "affine"
    assert "fmul" not in captured.text


def test_the_flags_of_the_program_do_not_reach_the_kept_function():
    @numba.njit
    def divide(x, y):
        return x / y

    @numba.njit(error_model="numpy", fastmath=True)
    def program(x, y):
        return divide(x, y)

    captured = capture(program, (float64, float64), rules=Keeping(divide))
    marked = the_call(captured)
    ir = marked.library.get_llvm_str()
    assert "division by zero" in ir
    assert re.search(r"fdiv double", ir)
