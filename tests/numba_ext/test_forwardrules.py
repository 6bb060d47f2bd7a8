"""Forward rules in the engine's convention, called as the engine calls them."""

import ctypes
import math

import numba
import numpy as np
import pytest
from numba import float64

import activerules as ar
from activerules.errors import NoRuleForActivity, RuleReturnError
from activerules.ir.rulecall import ForwardRuleRequest
from activerules.numba_ext.capture import capture
from activerules.numba_ext.rulecompile import NumbaRuleCompiler
from activerules.rules.registry import RULES


def forward_function(program, argtypes, activities, result="duplicated", width=1):
    """The compiled rule of the one marked call in `program`, as a ctypes function."""
    captured = capture(program, argtypes, rules=RULES.forward_view)
    (symbol,) = captured.marked
    compiler = NumbaRuleCompiler(captured.marked, RULES)
    code = compiler.choose_forward(symbol, ForwardRuleRequest(activities, result, width))
    library = next(each for each in compiler.libraries if each.name == code.symbol)
    function = ctypes.CFUNCTYPE(ctypes.c_int32)(library.get_pointer_to_function(code.symbol))
    function.argtypes, function.library = None, library
    return function, code


def operands(array):
    """An array without owner, flattened as Numba does."""
    size = map(ctypes.c_int64, (array.size, array.itemsize))
    shape = map(ctypes.c_int64, (*array.shape, *array.strides))
    return [ctypes.c_void_p(), ctypes.c_void_p(), *size, ctypes.c_void_p(array.ctypes.data), *shape]


def interleaved(*lanes):
    return [operand for each in zip(*lanes, strict=True) for operand in each]


@numba.njit
def damped(x, n):
    return math.exp(-n * x)


@ar.forward(damped)
def damped_forward(config, ret: ar.Duplicated, x: ar.Duplicated, n: ar.Const):
    y = math.exp(-n.val * x.val)
    return y, -n.val * y * x.dval


@numba.njit
def program(x):
    return damped(x, 3)


@pytest.mark.parametrize("width", [1, 3])
def test_floats(width):
    activities = ("duplicated", "const")
    function, code = forward_function(program, (float64,), activities, width=width)
    out = (ctypes.c_double * (1 + width))()
    places = [ctypes.c_void_p(ctypes.addressof(out) + 8 * k) for k in range(1 + width)]
    tangents = [ctypes.c_double(1.0 + k) for k in range(width)]
    excinfo = ctypes.c_void_p()
    x, n = ctypes.c_double(0.4), ctypes.c_int64(3)
    assert function(*places, ctypes.byref(excinfo), x, n, *tangents) == 0
    y = math.exp(-1.2)
    np.testing.assert_allclose(out, [y, *(-3 * y * (1.0 + k) for k in range(width))])
    assert code.description.startswith("damped(x: Duplicated, n: Const) -> Duplicated")


@numba.njit
def doubled_into(a):
    for i in range(a.size):
        a[i] = a[i] * a[i]


@ar.forward(doubled_into)
def doubled_forward(config, ret: ar.Const, a: ar.Duplicated):
    for i in range(a.val.size):
        a.dval[i] *= 2.0 * a.val[i]
    doubled_into(a.val)


@numba.njit
def calls_doubled(a):
    doubled_into(a)


def test_lanes_of_a_function_that_writes_into_its_argument():
    function, _ = forward_function(
        calls_doubled, (float64[::1],), ("duplicated",), result="const", width=3
    )
    a = np.array([1.0, -2.0, 3.0])
    lanes = [np.eye(3)[k] for k in range(3)]
    nothing = [ctypes.c_void_p()] * 4
    excinfo = ctypes.c_void_p()
    shadows = interleaved(*map(operands, lanes))
    assert function(*nothing, ctypes.byref(excinfo), *operands(a), *shadows) == 0
    np.testing.assert_allclose(a, [1.0, 4.0, 9.0])
    np.testing.assert_allclose(lanes, np.diag([2.0, -4.0, 6.0]))


def test_a_batch_rule_is_preferred_for_a_batch():
    @numba.njit
    def f(x):
        return x * x

    @ar.forward(f)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        return x.val * x.val, 2.0 * x.val * x.dval

    @ar.forward(f)
    def _(config, ret: ar.BatchDuplicated, x: ar.BatchDuplicated):
        return x.val * x.val, (2.0 * x.val * x.dval[0], 2.0 * x.val * x.dval[1])

    @numba.njit
    def calls(x):
        return f(x)

    _, one = forward_function(calls, (float64,), ("duplicated",))
    function, two = forward_function(calls, (float64,), ("duplicated",), width=2)
    assert "Batch" not in one.description
    assert "BatchDuplicated" in two.description
    out = (ctypes.c_double * 3)()
    places = [ctypes.c_void_p(ctypes.addressof(out) + 8 * k) for k in range(3)]
    lanes = [ctypes.c_double(1.0), ctypes.c_double(0.5)]
    assert function(*places, ctypes.byref(ctypes.c_void_p()), ctypes.c_double(3.0), *lanes) == 0
    assert list(out) == [9.0, 6.0, 3.0]


def rule_of(body):
    """A function whose forward rule is `body`, called by a program."""

    @numba.njit
    def f(x):
        return x * x

    @numba.njit
    def calls(x):
        return f(x)

    ar.forward(f)(body)
    return calls


def wrong_type(config, ret: ar.Duplicated, x: ar.Duplicated):
    return x.val, "text"


def no_primal(config, ret: ar.Duplicated, x: ar.Duplicated):
    return x.dval


@pytest.mark.parametrize("body", [wrong_type, no_primal])
def test_what_a_forward_rule_returns_is_checked(body):
    with pytest.raises(RuleReturnError, match=r"expected \(float64, float64\) as primal and tan"):
        forward_function(rule_of(body), (float64,), ("duplicated",))


def test_no_forward_rule_for_an_activity():
    def only_const(config, ret: ar.Const, x: ar.Const):
        return x.val * x.val

    with pytest.raises(NoRuleForActivity, match="no forward rule for f") as caught:
        forward_function(rule_of(only_const), (float64,), ("duplicated",))
    assert "@forward(f)\n" in str(caught.value)


def test_a_function_without_forward_rule_is_its_body():
    @numba.njit
    def f(x):
        return x * x

    @numba.njit
    def calls(x):
        return f(x)

    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(x.val * x.val, None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 2.0 * x.val * dret.val

    assert not capture(calls, (float64,), rules=RULES.forward_view).marked
    assert capture(calls, (float64,), rules=RULES).marked
    assert RULES.find_forward(f, (float64,), float64, ("duplicated",), "duplicated") is None
