"""Debug mode: what is noticed at run time, and that right rules pass.

One rule that is wrong in as many ways as it is told to be: its mistakes share one compile.
"""

import math

import numba
import numpy as np
import pytest

import activerules as ar
from activerules.rules.debug import debug_mode
from activerules.testing import central_fdm

AUGMENTED = {
    1: "the primal differs from that of the function",
    2: "the shadow is not zeros in the shape of the primal",
    3: "the shadow is not zeros in the shape of the primal",
    4: "`a` is not left as the function does",
    6: "`n` is not left as the function does",
}
REVERSE = {
    11: r"the derivative with respect to `a` differs .*: found 0, expected [-\d]",  # adds nothing
    12: "the derivative with respect to `a` differs from finite",  # overwrites the shadow
    13: "the derivative with respect to `x` differs from finite differences",  # 1 % too large
    14: "with respect to `x` is NaN or infinite, or made from a value that was overwritten",
    15: "the reverse writes into the value of `a`",
    16: "the derivative with respect to `x` is NaN or infinite",
    17: "the reverse writes into the value of `n`",
    18: "the reverse writes into its tape",
    19: "the reverse writes into `dret.val`",
}


@numba.njit
def scale(a, x, mistake, n):
    return a * x


@ar.augmented_primal(scale)
def _(config, ret: ar.Duplicated, a: ar.Duplicated, x: ar.Active, mistake: ar.Const, n: ar.Const):
    m = mistake.val
    y = a.val * x.val
    if m == 1:
        y += 1.0
    shadow = np.zeros(1) if m == 2 else np.zeros_like(y)
    if m == 3:
        shadow[0] = 1.0
    if m == 4:
        a.val[0] = 7.0
    if m == 6:
        n.val[0] += 1
    return ar.AugmentedReturn(y, shadow, a.val.copy())


@ar.reverse(scale)
def _(
    config,
    dret: ar.Duplicated,
    tape,
    a: ar.Duplicated,
    x: ar.Active,
    mistake: ar.Const,
    n: ar.Const,
):
    m = mistake.val
    by_x = np.dot(tape, dret.dval)
    if m == 12:
        a.dval[:] = 2.0 * dret.dval * x.val
    elif m != 11:
        ar.accumulate(a, dret.dval * x.val)
    if m == 13:
        by_x *= 1.01
    if m == 14:
        by_x = np.dot(a.val, dret.dval)
    if m == 15:
        a.val[0] = 0.0
    if m == 16:
        by_x = math.inf
    if m == 17:
        n.val[0] = 3
    if m == 18:
        tape *= 2.0
    if m == 19:
        dret.val[0] = 3.0
    return None, by_x, None, None


@ar.forward(scale)
def _(
    config,
    ret: ar.Duplicated,
    a: ar.Duplicated,
    x: ar.Duplicated,
    mistake: ar.Const,
    n: ar.Const,
):
    m = mistake.val
    y, y_dot = a.val * x.val, a.dval * x.val + a.val * x.dval
    if m == 21:
        y += 1.0
    if m == 22:
        y_dot *= 1.01
    if m == 23:
        a.dval[0] += 1.0
    if m == 24:
        n.val[0] += 1
    return y, y_dot


FORWARD = {
    21: "the primal differs from that of the function",
    22: "the tangent differs from finite differences",
    23: "the tangent of `a` differs from finite differences",
    24: "`n` is not left as the function does",
}


@numba.njit
def program(a, x, mistake):
    b = a.copy()
    y = scale(b, x, mistake, np.zeros(1, np.int64))
    b[:] = 3.0
    return np.sum(y * y) + b[0] * x


gradient = ar.grad(program, argnums=(0, 1))
A, X = np.array([1.0, -2.0, 0.5]), 1.5


def test_d1_debug_mode_accepts_a_right_rule():
    with debug_mode():
        by_a, by_x = gradient(A, X, 0)
    np.testing.assert_allclose(by_a, 2.0 * A * X * X)
    np.testing.assert_allclose(by_x, 2.0 * np.sum(A * A) * X + 3.0)


@pytest.mark.parametrize("mistake", [*AUGMENTED, *REVERSE])
def test_d2_debug_mode_finds_mistakes(mistake):
    message = {**AUGMENTED, **REVERSE}[mistake]
    with debug_mode(), pytest.raises(ar.RuleViolation, match=message) as caught:
        gradient(A, X, mistake)
    rule, _, call = str(caught.value).partition("called at")
    assert "the rule of scale at " in rule
    assert "test_debug.py" in call


def along(mistake):
    return ar.autodiff(
        ar.Forward, program, ar.Duplicated(A, np.ones(3)), ar.Duplicated(X, 0.5), ar.Const(mistake)
    )


@pytest.mark.parametrize("mistake", FORWARD)
def test_mistakes_of_a_forward_rule_are_noticed(mistake):
    with debug_mode():
        y, y_dot = A * X, np.ones(3) * X + A * 0.5
        np.testing.assert_allclose(along(0), 2.0 * np.sum(y * y_dot) + 1.5)
        with pytest.raises(ar.RuleViolation, match=FORWARD[mistake]):
            along(mistake)


def test_debug_mode_makes_the_chosen_checks():
    with debug_mode(derivatives=False):
        _, by_x = gradient(A, X, 13)
    _, plain = gradient(A, X, 13)
    assert by_x == plain


def test_debug_mode_for_the_process_and_back():
    debug_mode(True)
    try:
        with pytest.raises(ar.RuleViolation):
            gradient(A, X, 13)
    finally:
        debug_mode(False)
    assert math.isfinite(gradient(A, X, 13)[1])


@ar.noalias
@numba.njit
def copied(x, broken):
    return x if broken == 4 else x.copy()


@ar.augmented_primal(copied, keeps_shadow=False)
def _(config, ret: ar.Duplicated, x: ar.Duplicated, broken: ar.Const):
    y = copied(x.val, broken.val)
    shadow = np.zeros(len(y))
    if broken.val == 3:
        x.dval[0] += 1.0
    kept = x.dval if broken.val == 1 else shadow if broken.val == 2 else y
    return ar.AugmentedReturn(y, shadow, [kept])


@ar.reverse(copied)
def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated, broken: ar.Const):
    for i in range(len(x.dval)):
        x.dval[i] += dret.dval[i]


@numba.njit
def first_of_copy(x, broken):
    return copied(x, broken)[0]


BROKEN = [
    (1, ar.RuleViolation, "keeps_shadow=False, .* puts the shadow of `x` on its tape"),
    (2, ar.RuleViolation, "keeps_shadow=False, .* puts the shadow that it returns on its tape"),
    (3, ar.RuleViolation, "keeps_shadow=False, .* writes into the shadow of `x`"),
    (4, ar.RuleReturnError, "what copied or its rule returns shares memory with an argument"),
]


def test_debug_mode_checks_promises():
    with debug_mode(primal=False):
        np.testing.assert_array_equal(ar.grad(first_of_copy)(A, 0), [1.0, 0.0, 0.0])
        for broken, error, message in BROKEN:
            with pytest.raises(error, match=message):
                ar.grad(first_of_copy)(A, broken)


@numba.njit
def sixth(x):
    return x[5]


@numba.njit(boundscheck=False)
def after_sixth(x):
    return 2.0 * sixth(x)


def test_debug_mode_checks_indices():
    """The derivative of what reads past the end would write there."""
    x, x_bar = np.arange(10.0), np.zeros(10)
    short = ar.Duplicated(x[:3], x_bar[:3])
    with debug_mode():
        with pytest.raises(IndexError):
            ar.autodiff(ar.Reverse, after_sixth, short)
        with pytest.raises(IndexError):
            ar.autodiff(ar.Forward, after_sixth, short)
        ar.autodiff(ar.Reverse, after_sixth, ar.Duplicated(x, x_bar))
    np.testing.assert_array_equal(x_bar, 2.0 * (np.arange(10) == 5))


@numba.njit
def square(x):
    return x * x


@ar.augmented_primal(square)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(x.val * x.val, None, np.array([2.0 * x.val]))


@ar.reverse(square)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return tape[0] * dret.val


def test_a_tape_may_be_read_again():
    with debug_mode():
        _, pullback = ar.vjp(square, 3.0)
        assert (pullback(1.0), pullback(2.0)) == ((6.0,), (12.0,))


# --- complex numbers, tuples, lists, batches ---


@numba.njit
def mixed(z, pair, items, wrong):
    return z * pair[0] * items[0] + pair[1]


@ar.augmented_primal(mixed)
def _(config, ret: ar.Active, z: ar.Active, pair: ar.Active, items: ar.Const, wrong: ar.Const):
    value = mixed(z.val, pair.val, items.val, 0)
    return ar.AugmentedReturn(value, None, items.val[0])


@ar.reverse(mixed)
def _(
    config, dret: ar.Active, tape, z: ar.Active, pair: ar.Active, items: ar.Const, wrong: ar.Const
):
    g, m = dret.val, wrong.val
    factor = items.val[0] if m == 3 else tape
    by_z = g * (pair.val[0] if m == 1 else pair.val[0].conjugate()) * factor
    by_first = g * z.val.conjugate() * factor
    return by_z, (by_first, g.real * (2.0 if m == 2 else 1.0)), None, None


@ar.forward(mixed)
def _(
    config,
    ret: ar.BatchDuplicated,
    z: ar.BatchDuplicated,
    pair: ar.BatchDuplicated,
    items: ar.Const,
    wrong: ar.Const,
):
    value = mixed(z.val, pair.val, items.val, 0)
    p, k = pair.val[0], items.val[0]
    d0 = (z.dval[0] * p + z.val * pair.dval[0][0]) * k + pair.dval[0][1]
    d1 = (z.dval[1] * p + z.val * pair.dval[1][0]) * k + pair.dval[1][1]
    return value, (d0, d0 if wrong.val == 1 else d1)


@numba.njit
def of_mixed(x, y, wrong):
    items = [3.0]
    value = mixed(complex(x, y * y), (complex(y, x), x * y), items, wrong)
    items[0] = 5.0
    return value.real * value.imag


def test_numbers_of_every_kind_are_differenced():
    gradient_of = ar.grad(of_mixed, argnums=(0, 1))
    plain = gradient_of(0.7, 0.4, 0)
    expected = [central_fdm(5, 1)(lambda v, k=k: of_mixed(*shifted(k, v), 0), 0.0) for k in (0, 1)]
    np.testing.assert_allclose(plain, expected, rtol=1e-8)
    with debug_mode():
        np.testing.assert_allclose(gradient_of(0.7, 0.4, 0), plain)
        for wrong in (1, 2, 3):
            with pytest.raises(ar.RuleViolation, match="differs from finite differences"):
                gradient_of(0.7, 0.4, wrong)


@numba.njit
def weighed(tree):
    x, (s, k), _ = tree
    return x * s * k[0]


@ar.augmented_primal(weighed)
def _(config, ret: ar.Duplicated, tree: ar.MixedDuplicated):
    x, (_, k), mistake = tree.val
    y = weighed(tree.val)
    shadow = x if mistake == 1 else np.zeros_like(y)
    return ar.AugmentedReturn(y, shadow, (x.copy(), k.copy(), shadow))


@ar.reverse(weighed)
def _(config, dret: ar.Duplicated, tape, tree: ar.MixedDuplicated):
    (x, k, g), (values, (s, _), mistake) = tape, tree.val
    dx, (_, dk), _ = tree.dval
    if mistake == 2:
        x = values
    if mistake == 3:
        values[0] = 5.0
    dx += g * s * k[0] * (1.01 if mistake == 4 else 1.0)
    dk += np.sum(g * x) * s
    return None, (np.sum(g * x) * k[0] * (1.01 if mistake == 5 else 1.0), None), None


@numba.njit
def of_weighed(x, s, k, mistake):
    y = x.copy()
    z = weighed((y, (s, k), mistake))
    y[:] = 3.0
    return np.sum(z * z)


IN_A_TUPLE = {
    1: "the shadow is not zeros",
    2: "is NaN or infinite, or made from a value that was overwritten",
    3: "the reverse writes into the value of `tree`",
    4: "the derivative with respect to `tree` differs from finite differences",
    5: "the derivative with respect to `tree` differs from finite differences",
}


def test_arrays_in_tuples_are_checked():
    gradient_of = ar.grad(of_weighed, argnums=(0, 1, 2))
    x, s, k = np.array([0.3, 0.4]), 1.3, np.array([0.7])
    with debug_mode():
        by_x, by_s, by_k = gradient_of(x, s, k, 0)
        for mistake, message in IN_A_TUPLE.items():
            with pytest.raises(ar.RuleViolation, match=message):
                gradient_of(x, s, k, mistake)
    np.testing.assert_allclose(by_x, 2.0 * x * (s * k[0]) ** 2, rtol=1e-14)
    assert by_s == pytest.approx(2.0 * x @ x * s * k[0] ** 2, rel=1e-14)
    assert by_k[0] == pytest.approx(2.0 * x @ x * s**2 * k[0], rel=1e-14)


def test_debug_mode_with_one_array_as_two_arguments():
    """The shadow has the sum of both derivatives, unlike finite differences of one argument."""
    with debug_mode():
        by_a = ar.grad(squared_length)(A)
    np.testing.assert_allclose(by_a, 2.0 * A)


@numba.njit
def squared_length(a):
    return product(a, a)


@numba.njit
def product(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@ar.augmented_primal(product)
def _(config, ret: ar.Active, a: ar.Duplicated, b: ar.Duplicated):
    return ar.AugmentedReturn(product(a.val, b.val), None, None)


@ar.reverse(product, saves=("a", "b"))
def _(config, dret: ar.Active, tape, a: ar.Duplicated, b: ar.Duplicated):
    for i in range(3):
        a.dval[i] += dret.val * b.val[i]
        b.dval[i] += dret.val * a.val[i]


def shifted(place, by):
    return (0.7 + by * (place == 0), 0.4 + by * (place == 1))


def test_every_lane_of_a_batch_is_checked():
    x = ar.BatchDuplicated(0.7, (1.0, 0.0))
    y = ar.BatchDuplicated(0.4, (0.0, 1.0))
    with debug_mode():
        lanes = ar.autodiff(ar.Forward, of_mixed, x, y, ar.Const(0))
        np.testing.assert_allclose(lanes, ar.grad(of_mixed, argnums=(0, 1))(0.7, 0.4, 0))
        with pytest.raises(ar.RuleViolation, match="tangent differs from finite differences"):
            ar.autodiff(ar.Forward, of_mixed, x, y, ar.Const(1))
