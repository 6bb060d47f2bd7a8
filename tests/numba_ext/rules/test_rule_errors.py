"""A rule that raises: the exception says at which call of the program it was run."""

import math
import os
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from numba import njit, objmode

import activerules as ar

X = np.array([2.0, 3.0])
NEGATIVE, ZERO = np.array([-1.0, 3.0]), np.array([0.0, 3.0])
SECOND_NEGATIVE = np.array([2.0, -3.0])


@njit
def energy(x):
    return x[0] * x[0] * x[1]


@ar.augmented_primal(energy)
def _(config, ret: ar.Active, x: ar.Duplicated):
    if x.val[0] < 0:
        raise ValueError("negative", x.val[0])
    return ar.AugmentedReturn(primal=energy(x.val), shadow=None, tape=x.val.copy())


@ar.reverse(energy)
def _(config, dret: ar.Active, tape, x: ar.Duplicated):
    if tape[0] == 0:
        raise ar.RepeatedValues("", 0, 1, 2.0, 0.0)
    x.dval[0] += 2 * tape[0] * tape[1] * dret.val
    x.dval[1] += tape[0] * tape[0] * dret.val


@ar.forward(energy)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    if x.val[0] < 0:
        raise ValueError("negative", x.val[0])
    slope = 2 * x.val[0] * x.val[1] * x.dval[0] + x.val[0] * x.val[0] * x.dval[1]
    return energy(x.val), slope


@njit
def twice(x):
    first = energy(x)
    return first + energy(x[::-1].copy())


@njit
def gradient_of_twice(x):
    x_bar = np.zeros_like(x)
    ar.autodiff(ar.Reverse, twice, ar.Active, ar.Duplicated(x, x_bar))
    return x_bar


@njit
def caught(x):
    try:
        return gradient_of_twice(x)[0]
    except Exception:
        return -1.0


def split(x):
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, twice, ar.Active, ar.Duplicated
    )
    annotated = ar.Duplicated(x, np.zeros(2))
    tape, _, _ = augmented(annotated)
    reverse(annotated, 1.0, tape)


WAYS = {
    "reverse": lambda x: ar.grad(twice)(x),
    "compiled": gradient_of_twice,
    "split": split,
    "forward": lambda x: ar.jacfwd(twice)(x),
    "product": lambda x: ar.hvp(twice, x, X),
}
FIRST, SECOND = "first = energy(x)", "return first + energy(x[::-1].copy())"
SOURCE = Path(__file__).read_text().splitlines()
LINES = {line: SOURCE.index(f"    {line}") + 1 for line in (FIRST, SECOND)}


@pytest.mark.parametrize("way", WAYS)
def test_rule_errors_s2_any_exception_says_the_line_of_the_call(way, monkeypatch):
    """Class, arguments and the line of the rule stay what they are."""
    monkeypatch.chdir(Path(__file__).parent)
    WAYS[way](X)
    for x, line in ((NEGATIVE, FIRST), (SECOND_NEGATIVE, SECOND)):
        with pytest.raises(ValueError, match="negative") as caught:
            WAYS[way](x)
        note = f"in a derivative, at the line  {line}   {Path(__file__).name}:{LINES[line]}"
        assert caught.value.__notes__ == [note]
        assert caught.value.args == ("negative", x.min())
        assert type(caught.value) is ValueError


@pytest.mark.parametrize("way", ["reverse", "compiled", "split"])
def test_rule_errors_s2_errors_of_ours_have_the_line_among_their_locations(way, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    for x, line in ((ZERO, FIRST), (ZERO[::-1].copy(), SECOND)):
        with pytest.raises(ar.RepeatedValues, match="values 0 and 1 are equal") as caught:
            WAYS[way](x)
        place = f"{Path(__file__).name}:{LINES[line]}"
        assert caught.value.where == [("at the line", line, place)]
        assert f"  at the line   {line}   {place}\n" in str(caught.value)


def test_the_line_of_the_rule_is_in_the_traceback():
    with pytest.raises(ValueError, match="negative") as caught:
        gradient_of_twice(NEGATIVE)
    raised = traceback.extract_tb(caught.tb)[-1]
    assert raised.filename == __file__
    assert SOURCE[raised.lineno - 1].strip() == 'raise ValueError("negative", x.val[0])'


@njit
def energy_by_itself(x):
    """`energy`, if it raised where its rule does."""
    if x[0] <= 0:
        raise ValueError("negative", x[0])
    return x[0] * x[0] * x[1]


@njit
def twice_by_itself(x):
    first = energy_by_itself(x)
    return first + energy_by_itself(x[::-1].copy())


def test_wrap_w4_rule_errors_leak_no_more_than_errors_of_the_function(unfreed):
    def fails(f):
        for x in (NEGATIVE, SECOND_NEGATIVE, ZERO) * 20:
            with pytest.raises((ValueError, ar.RepeatedValues)):
                f(x)

    lost = unfreed(lambda: fails(twice_by_itself))
    assert unfreed(lambda: fails(WAYS["reverse"])) <= lost
    np.testing.assert_allclose(WAYS["reverse"](X), [21.0, 16.0])


def test_rule_errors_can_be_caught_by_compiled_code():
    assert caught(X) == 21.0
    for _ in range(100):
        assert caught(NEGATIVE) == caught(ZERO) == -1.0
    with pytest.raises(ar.RepeatedValues) as error:
        gradient_of_twice(ZERO)
    assert len(error.value.where) == 1


@njit
def caught_within(x):
    try:
        return energy(x)
    except Exception:
        return 3.0 * x[1]


@njit
def energy_or_raises(x):
    """`energy`, if it raised where its rule does."""
    if x[0] < 0:
        raise ValueError("negative", x[0])
    return x[0] * x[0] * x[1]


@njit
def caught_where_the_function_raises(x):
    try:
        return energy_or_raises(x)
    except Exception:
        return 3.0 * x[1]


def test_rule_errors_s1_caught_exceptions_cost_one_allocation(unfreed):
    """What Numba loses where an exception is caught is lost, and the record of the call site."""
    lost = unfreed(lambda: caught_where_the_function_raises(NEGATIVE))
    assert unfreed(lambda: ar.grad(caught_within)(NEGATIVE)) <= lost + 1
    np.testing.assert_array_equal(ar.grad(caught_within)(NEGATIVE), [0.0, 3.0])
    np.testing.assert_array_equal(ar.grad(caught_within)(X), [12.0, 4.0])


# In a process of its own, which a stale exception once ended.
RECURSIVE = """
import numpy as np
from numba import njit
import activerules as ar

@njit
def watched(x, limit):
    return 2.0 * x

@ar.augmented_primal(watched)
def _(config, ret: ar.Active, x: ar.Active, limit: ar.Const):
    return ar.AugmentedReturn(watched(x.val, limit.val), None, x.val)

@ar.reverse(watched)
def _(config, dret: ar.Active, tape, x: ar.Active, limit: ar.Const):
    if tape > limit.val[0]:
        raise ValueError("too large", tape)
    return 2.0 * dret.val, None

@njit
def halved(x, limit, depth):
    if depth == 0:
        return watched(x, limit)
    return halved(0.5 * x, limit, depth - 1) * x

@njit
def outer(x, limit):
    return halved(x, limit, 3)

def reverse(limit):
    return ar.autodiff(ar.Reverse, outer, ar.Active, ar.Active(1.5), ar.Const(limit))

def split(limit):
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitNoPrimal, outer, ar.Active, ar.Active, ar.Const
    )
    tape, _, _ = augmented(ar.Active(1.5), ar.Const(limit))
    return reverse(ar.Active(1.5), ar.Const(limit), 1.0, tape)

@njit
def compiled(limit):
    return ar.autodiff(ar.Reverse, outer, ar.Active, ar.Active(1.5), ar.Const(limit))

for derivative in (reverse, split, compiled):
    try:
        derivative(np.zeros(1))
    except ValueError as error:
        print(error)
    print(f"{derivative(np.ones(1))[0]:.6f}")  # (x^4 / 32)' at 1.5
"""


def test_an_exception_of_a_reverse_in_a_recursive_function_reaches_the_caller():
    command = [sys.executable, "-c", RECURSIVE]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["('too large', 0.1875)", "0.421875"] * 3


@njit
def interpreted(x):
    return x * x


@ar.augmented_primal(interpreted)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(interpreted(x.val), None, x.val)


@ar.reverse(interpreted)
def _(config, dret: ar.Active, tape, x: ar.Active):
    with objmode(slope="float64"):
        slope = 2.0 * tape
    return slope * dret.val


def test_a_second_derivative_names_the_rule_that_runs_in_the_interpreter():
    assert ar.grad(interpreted)(3.0) == 6.0
    program = njit(lambda x: interpreted(x) * x)
    with pytest.raises(ar.NotYetSupported, match=r"objmode(.|\n)*of a rule for interpreted"):
        ar.hvp(program, 3.0, 1.0)


def test_forward_mode_through_the_interpreter_names_the_rule_that_is_missing():
    @njit
    def sine(x):
        with objmode(y="float64"):
            y = float(np.sin(x))
        return y

    @ar.augmented_primal(sine)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(sine(x.val), None, None)

    @ar.reverse(sine)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return math.cos(x.val) * dret.val

    program = njit(lambda x: sine(x) * x)
    assert ar.grad(program)(2.0) == pytest.approx(2.0 * math.cos(2.0) + math.sin(2.0))
    with pytest.raises(ar.NotYetSupported, match=r"(?s)objmode.*lacks in this mode: @ar\.forward"):
        ar.jvp(program, (2.0,), (1.0,))


@njit
def shift(a, b, p):
    a[1] = a[1] * p + b[0]
    return a[1] * p


@ar.augmented_primal(shift)
def _(config, ret: ar.Active, a: ar.Duplicated, b: ar.Duplicated, p: ar.Active):
    before = a.val[1]
    return ar.AugmentedReturn(shift(a.val, b.val, p.val), None, (before, a.val[1]))


@ar.reverse(shift)
def _(config, dret: ar.Active, tape, a: ar.Duplicated, b: ar.Duplicated, p: ar.Active):
    before, after = tape
    bar = a.dval[1] + dret.val * p.val
    a.dval[1] = bar * p.val
    b.dval[0] += bar
    return None, None, bar * before + dret.val * after


@ar.forward(shift)
def _(config, ret: ar.Duplicated, a: ar.Duplicated, b: ar.Duplicated, p: ar.Duplicated):
    a.dval[1] = a.dval[1] * p.val + a.val[1] * p.dval + b.dval[0]
    y = shift(a.val, b.val, p.val)
    return y, a.dval[1] * p.val + a.val[1] * p.dval


@njit
def shift_twice(a, b, p):
    if p > 100.0:
        return shift_twice(a, b, p - 1.0)
    return shift(a, b, p) + shift(a, b, p)


def attempting(function):
    @njit
    def program(a, p):
        total = 1.0
        for k in range(2):
            try:
                total += function(a, a[k:], p)
            except Exception:
                total = 0.0
        return total * p

    return program


@pytest.mark.parametrize("function", [shift, shift_twice], ids=("called", "not inlined"))
def test_no_try_of_the_program_catches_the_refusal_of_a_rule(function):
    a, p = np.array([0.3, 0.7, 0.2]), 1.1
    program = attempting(function)
    for derivative in (
        lambda: ar.value_and_grad(program, argnums=(0, 1))(a.copy(), p),
        lambda: ar.jvp(program, (a.copy(), p), (np.ones(3), 0.5)),
    ):
        with pytest.raises(ar.RuleArgumentsOverlap, match="shift"):
            derivative()
