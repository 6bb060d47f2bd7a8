"""What a rule must find, and must leave, between its two halves."""

import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from numba.extending import overload

import activerules as ar
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.errors import RuleCheckError
from activerules.testing import check_rule
from testing.pairs import (
    OUT,
    X,
    assigns_a_shadow,
    spends_its_tape,
    squares_pair,
    squares_reverse,
    writes_into_what_is_written,
)


def test_h3_what_a_reverse_saves_it_finds():
    check_rule(squares_pair(squares_reverse), OUT, X, compiled=False)


def test_h3_a_reverse_that_writes_into_an_array_of_its_tape_is_told():
    with pytest.raises(RuleCheckError, match="`reverse` writes into an array of its tape") as error:
        check_rule(squares_pair(spends_its_tape), OUT, X, compiled=False)
    assert "copied at every call" in error.value.why


def test_a_tape_that_python_cannot_hold_is_checked_where_it_is_interpreted():
    @njit
    def square(x):
        return x * x

    @ar.augmented_primal(square)
    def _(config, ret: Active, x: Active):
        return ar.AugmentedReturn(square(x.val), None, range(2))

    @ar.reverse(square)
    def _(config, dret: Active, tape, x: Active):
        return len(tape) * x.val * dret.val

    check_rule(square, 1.5, compiled=False)
    with pytest.raises(RuleCheckError, match="the tape cannot be checked in compiled code"):
        check_rule(square, 1.5)


def test_a_rule_that_numba_does_not_compile_is_named():
    class Settings:
        factor = 2.0

    settings = Settings()

    @njit
    def square(x):
        return x * x

    @ar.augmented_primal(square)
    def _(config, ret: Active, x: Active):
        return ar.AugmentedReturn(square(x.val), None, None)

    @ar.reverse(square)
    def _(config, dret: Active, tape, x: Active):
        return settings.factor * x.val * dret.val

    with pytest.raises(ar.NotCompilable, match="cannot compile the rule of square"):
        check_rule(square, 1.5)


def test_h3_a_list_on_a_tape_is_the_own_one_of_each_call():
    @njit
    def squares(x):
        return np.sum(x * x)

    @ar.augmented_primal(squares)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(squares(x.val), None, (list(2.0 * x.val), x.val.size))

    @ar.reverse(squares)
    def _(config, dret: Active, tape, x: Duplicated):
        slopes, shadow = tape[0], x.dval
        while len(slopes) > 0:
            slope = slopes.pop()
            shadow[len(slopes)] += slope * dret.val

    check_rule(squares, X)


def test_an_assignment_to_an_annotation_is_told():
    with pytest.raises(RuleCheckError, match="`reverse` assigns to an annotation") as error:
        check_rule(squares_pair(assigns_a_shadow), OUT, X, compiled=False)
    assert error.value.instead == ["add into a shadow: x.dval[:] += …"]


def test_h1_what_is_indexed_by_is_named_where_it_is_not_saved():
    @njit
    def chosen(index, x):
        return x[index[0]] * x[index[1]]

    def pair(saves):
        @ar.augmented_primal(chosen)
        def _(config, ret: Active, index: Const, x: Duplicated):
            return ar.AugmentedReturn(chosen(index.val, x.val), None, None)

        @ar.reverse(chosen, saves=saves)
        def _(config, dret: Active, tape, index: Const, x: Duplicated):
            i, j = index.val
            x.dval[i] += dret.val * x.val[j]
            x.dval[j] += dret.val * x.val[i]

    index = np.array([2, 0])
    for saves, named in [("x", "`index`"), ((), "`index`, `x`"), ("index", "`x`")]:
        pair(saves)
        with pytest.raises(RuleCheckError, match=f"`reverse` reads {named}, which may be overw"):
            check_rule(chosen, index, X, compiled=False)
    pair(("index", "x"))
    check_rule(chosen, index, X, compiled=False)


def spare_index(n):
    """One that is there in Python, and past the end when it is compiled."""
    return n - 1


@overload(spare_index)
def _spare_index(n):
    return lambda n: n


def test_h6_compiled_halves_check_their_indices():
    @njit
    def last(x):
        return x[-1]

    @ar.augmented_primal(last)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(last(x.val), None, None)

    @ar.reverse(last)
    def _(config, dret: Active, tape, x: Duplicated):
        x.dval[spare_index(len(x.val))] += dret.val

    with pytest.raises(IndexError, match="out of bounds"):
        check_rule(last, X)


def test_a_function_that_is_no_noalias_function():
    @ar.noalias
    @njit
    def tail(x):
        return x[1:]

    ar.augmented_primal(tail)(tail_augmented)
    ar.reverse(tail)(tail_reverse)
    with pytest.raises(RuleCheckError, match="tail is declared `noalias`, and returns memory of"):
        check_rule(tail, X, compiled=False)


def tail_augmented(config, ret: Duplicated, x: Duplicated):
    return ar.AugmentedReturn(x.val[1:].copy(), np.zeros(len(x.val) - 1), None)


def tail_reverse(config, dret: Duplicated, tape, x: Duplicated):
    x.dval[1:] += dret.dval


def test_h4_a_promise_to_keep_no_shadow_is_checked():
    def doubled(x):
        return 2.0 * x

    @ar.augmented_primal(doubled, keeps_shadow=False)
    def _(config, ret: Duplicated, x: Duplicated):
        y = 2.0 * x.val
        return ar.AugmentedReturn(y, np.zeros_like(y), (1, x.dval))

    @ar.reverse(doubled)
    def _(config, dret: Duplicated, tape, x: Duplicated):
        tape[1][...] += 2.0 * dret.dval

    with pytest.raises(RuleCheckError, match="a shadow is on its tape"):
        check_rule(doubled, np.array([1.0, 2.0]), compiled=False)


def test_h2_a_reverse_leaves_what_was_overwritten_alone():
    with pytest.raises(RuleCheckError, match="memory overwritten between the halves"):
        check_rule(squares_pair(writes_into_what_is_written), OUT, X, compiled=False)


def with_shared_tape(which):
    """A pair that returns, or keeps on its tape and changes, memory which is not new."""

    @njit
    def scaled(x):
        return 2.0 * x

    @ar.augmented_primal(scaled)
    def _(config, ret: Duplicated, x: Duplicated):
        doubled = 2.0 * x.val
        y = doubled.copy()
        if which == "result":
            x.val[:] = y
        primal = x.val if which == "result" else y
        return ar.AugmentedReturn(primal, np.zeros_like(y), (doubled, doubled[1:]))

    @ar.reverse(scaled)
    def _(config, dret: Duplicated, tape, x: Duplicated):
        if which == "tape":
            tape[1][...] = 0.0
        x.dval[:] += 2.0 * dret.dval

    return scaled


@pytest.mark.parametrize(
    ("which", "message"),
    [("result", "shares memory with an argument"), ("tape", "shares memory with another")],
)
def test_h5_memory_that_is_not_new_is_noticed(which, message):
    with pytest.raises(RuleCheckError, match=message):
        check_rule(with_shared_tape(which), X, compiled=False)


def no_augmented_return(config, ret: Active, x: Active):
    return 2.0 * x.val


def shadow_beside_a_number(config, ret: Active, x: Active):
    return ar.AugmentedReturn(2.0 * x.val, 0.0, None)


def no_primal(config, ret: Active, x: Active):
    return ar.AugmentedReturn(None, None, None)


@pytest.mark.parametrize(
    ("augmented", "told"),
    [
        (no_augmented_return, "returns 1.4, expected AugmentedReturn"),
        (shadow_beside_a_number, "returns the shadow 0.0, expected None"),
        (no_primal, "result: found None, expected 1.4"),
    ],
)
def test_a_first_half_that_returns_something_else_is_told(augmented, told):
    @njit
    def doubled(x):
        return 2.0 * x

    @ar.reverse(doubled)
    def reverse(config, dret: Active, tape, x: Active):
        return 2.0 * dret.val

    ar.augmented_primal(doubled)(augmented)
    with pytest.raises(RuleCheckError, match=told) as error:
        check_rule(doubled, 0.7, compiled=False)
    (situation, rule) = error.value.where
    assert situation[:2] == ("in the situation", "(Active) -> Active")
    assert rule[2].endswith(f":{reverse.__code__.co_firstlineno}")


def doubled_array(primal_and_shadow):
    @njit
    def doubled(x):
        return 2.0 * x

    @ar.augmented_primal(doubled)
    def _(config, ret: Duplicated, x: Duplicated):
        primal, shadow = primal_and_shadow(config, 2.0 * x.val)
        return ar.AugmentedReturn(primal, shadow, None)

    @ar.reverse(doubled)
    def _(config, dret: Duplicated, tape, x: Duplicated):
        ar.accumulate(x, 2.0 * dret.dval)

    return doubled


@pytest.mark.parametrize(
    "primal_and_shadow",
    [
        lambda config, y: (y, np.ones_like(y)),
        lambda config, y: (y[:1], np.zeros(1)),
        lambda config, y: (y, np.zeros(1)),
    ],
)
def test_a_shadow_that_is_not_zeros_in_the_shape_of_the_result_is_told(primal_and_shadow):
    with pytest.raises(RuleCheckError, match="expected zeros in the shape of the result"):
        check_rule(doubled_array(primal_and_shadow), X, compiled=False)


def test_a_result_that_is_not_needed_may_be_left_out():
    @njit
    def if_needed(config, y):
        return (y if config.needs_primal else None), np.zeros_like(y)

    check_rule(doubled_array(if_needed), X)


def test_the_rules_of_the_library_are_checked_in_a_process_that_has_not_differentiated():
    program = (
        "import numpy as np; from activerules.testing import check_rule;"
        "check_rule(np.linalg.norm, np.array([3.0, -0.5]))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
