"""Jacobians by tuples and of tuples: a block per leaf of the result and leaf of an argument."""

import math
from collections import namedtuple

import numpy as np
import pytest
from numba import njit
from numba.typed import List

import activerules as ar

Spring = namedtuple("Spring", ["stiffness", "rest", "turns"])
SWEEPS = [ar.jacfwd, ar.jacrev]  # `jacobian` is one of them, by the sizes: see test_vjp
SPRING, ENDS = Spring(2.0, np.array([0.3, 0.7]), 3), (np.arange(1.0, 6.0) / 3.0, 1.7)


@njit
def response(spring, ends):
    """Of tuples, in one of which the function writes: an array, a tuple, and an integer."""
    x, a = ends
    x[1] *= x[0]
    pull = spring.stiffness * x[1]
    return pull * spring.rest, (pull * pull, x * a * spring.rest.sum()), spring.turns


def expected_blocks():
    """By hand, as dense blocks: row by row of the result, by k, r, x, a."""
    (k, r, _), (x, a) = SPRING, ENDS
    z = x.copy()
    z[1] *= x[0]
    dz = np.eye(5)
    dz[1, :2] = x[1], x[0]
    pull = k * z[1]
    by_pull = np.array([z[1]]), k * dz[1]
    first = z[1] * r, pull * np.eye(2), np.outer(r, by_pull[1]), np.zeros(2)
    second = 2 * pull * z[1], np.zeros(2), 2 * pull * by_pull[1], 0.0
    third = np.zeros(5), np.outer(z * a, np.ones(2)), a * r.sum() * dz, z * r.sum()
    return first, second, third


def check(found, expected):
    (k, r, turns), (x, a) = found
    assert turns is None
    for block, wanted in zip((k, r, x, a), expected, strict=True):
        assert np.shape(block) == np.shape(wanted)
        np.testing.assert_allclose(block, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("make", SWEEPS)
def test_blocks_are_arranged_as_the_result_then_as_the_arguments(make, unfreed):
    jacobian = make(response, (0, 1))
    ends = ENDS[0].copy(), ENDS[1]
    first, (second, third), turns = jacobian(SPRING, ends)
    for found, expected in zip((first, second, third), expected_blocks(), strict=True):
        assert isinstance(found[0], Spring)
        check(found, expected)
    assert turns is None
    np.testing.assert_array_equal(ends[0], ENDS[0])  # what was written into was a copy
    assert unfreed(lambda: jacobian(SPRING, ends)) == 0


def test_the_mode_is_chosen_where_arguments_are_tuples():
    first, (second, third), _ = ar.jacobian(response, (0, 1))(SPRING, ENDS)
    for found, expected in zip((first, second, third), expected_blocks(), strict=True):
        check(found, expected)
    with pytest.raises(ar.ActivityError, match=r"`v` is ListType.*: no Jacobian"):
        ar.jacobian(lambda v: v[0] * v[1].sum())(List([np.ones(3), np.ones(2)]))


@njit
def of_one_number(x, n):
    return x * x if n else None


@njit
def rounded(x):
    """Its body is flat; its rule says that it is as steep as x."""
    return math.floor(x * 1e9) / 1e9


@ar.augmented_primal(rounded)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(rounded(x.val), None, None)


@ar.reverse(rounded)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return (dret.val,)


@njit
def tall(x):
    y = np.empty(40)
    for i in range(40):
        y[i] = rounded(x[0]) * i + x[1] ** 2
    return y


@pytest.mark.parametrize("call", ["by position", "by name", "compiled"])
def test_a_pair_without_a_forward_rule_is_used_whatever_the_sizes(call, rules_of_this_test):
    jacobian = ar.jacobian(tall)
    x = np.array([0.7, 1.3])
    calls = {
        "by position": lambda: jacobian(x),
        "by name": lambda: jacobian(x=x),
        "compiled": lambda: njit(lambda x: jacobian(x))(x),
    }
    expected = np.column_stack((np.arange(40.0), np.full(40, 2 * x[1])))
    np.testing.assert_allclose(calls[call](), expected, rtol=1e-15)  # a warning would be an error
    ar.opt_out(rounded, mode="forward")
    assert np.all(calls[call]()[:, 0] == 0.0)  # by forward mode, as the body is said to be right


def test_results_that_may_be_none_and_single_numbers():
    for make in (*SWEEPS, ar.jacobian):
        assert make(of_one_number)(3.0, 1) == 6.0
        by_x, by_y = make(lambda x, y: (x * y, y), (0, 1))(2.0, 3.0)[0]
        assert (by_x, by_y) == (3.0, 2.0)


@njit
def energy(spring, a):
    return spring.stiffness**2 * (spring.rest**3).sum() * a + spring.turns


def test_hessian_with_respect_to_a_tuple_and_a_number():
    (k, r, _), a = SPRING, 1.5
    by_spring, (by_a_spring, by_a) = ar.hessian(energy, (0, 1))(SPRING, a)
    cubes = (r**3).sum()
    assert by_spring.turns is by_a_spring.turns is by_spring.rest[0].turns is None
    by_stiffness, (by_rest, by_rest_a) = by_spring.stiffness, by_spring.rest
    assert by_stiffness[0].stiffness == pytest.approx(2 * a * cubes)
    for mixed in (by_stiffness[0].rest, by_rest.stiffness):
        np.testing.assert_allclose(mixed, 6 * a * k * r**2)
    np.testing.assert_allclose(by_rest.rest, np.diag(6 * a * k**2 * r))
    for mixed in (by_stiffness[1], by_a_spring.stiffness):
        assert mixed == pytest.approx(2 * k * cubes)
    for mixed in (by_rest_a, by_a_spring.rest):
        np.testing.assert_allclose(mixed, 3 * k**2 * r**2)
    assert by_a == 0.0


@njit
def items_and_more(items, s):
    """Lengthens the list, which is a copy."""
    rows = np.empty(len(items))
    for i in range(len(items)):
        items[i] *= s
        rows[i] = items[i] * items[0]
    items.append(s)
    return rows


@njit
def cubes_of(items, s):
    total = 0.0
    for item in items:
        total += s * item**3
    return total


def test_jacobian_with_respect_to_a_list_is_that_for_an_array():
    x, s = np.array([0.5, 1.5, -2.0]), 2.0
    items = List(x)
    expected = s * s * (np.outer(x, [1, 0, 0]) + x[0] * np.eye(3))
    for make in (ar.jacfwd, ar.jacrev):
        np.testing.assert_allclose(make(items_and_more)(items, s), expected, rtol=1e-13)
    assert list(items) == list(x)


def test_hessian_with_respect_to_a_list():
    x = np.array([0.5, 1.5, -2.0])
    found = ar.hessian(cubes_of)(List(x), 2.0)
    np.testing.assert_allclose(found, np.diag(12.0 * x), rtol=1e-13)


@njit
def not_holomorphic(z):
    return z * np.conj(z[0])


@njit
def as_floats(x):
    return not_holomorphic(x.view(np.complex128)).view(np.float64)


def test_complex_by_complex_jacobians_are_refused_with_a_form_in_floats():
    z = np.array([1.0 + 2.0j, 0.3 - 1.0j])
    with pytest.raises(ar.ActivityError, match=r"jacobian\(g\)\(z.view\(np.float64\)\)"):
        ar.jacrev(not_holomorphic)(z)
    (x, y), (u, v) = z.view(np.float64).reshape(2, 2)
    expected = [[2 * x, 2 * y, 0, 0], [0, 0, 0, 0], [u, v, x, y], [v, -u, -y, x]]
    for make in SWEEPS:
        np.testing.assert_allclose(make(as_floats)(z.view(np.float64)), expected, atol=1e-15)


@njit
def appended(x, seen):
    seen.append(1.0)
    return len(seen) * x


@njit
def scaled_by(x, factors):
    return factors[1] * x


def test_refusals():
    with pytest.raises(ar.ActivityError, match="returns int64"):
        ar.jacfwd(lambda x: x.size)(np.ones(3))
    with pytest.raises(ar.ActivityError, match=r"returns \(int64"):
        ar.jacrev(lambda x: (x.size, None))(np.ones(3))
    with pytest.raises(ar.ActivityError, match=r"`p` is .*: no Jacobian with respect"):
        ar.jacobian(lambda p: p[0])((1, 2))


def test_lists_are_not_copied():
    """They may be read; each run would find them longer."""
    seen = List([1.0, 2.0])
    for make in SWEEPS:
        np.testing.assert_array_equal(make(scaled_by)(np.ones(3), seen), 2.0 * np.eye(3))
        with pytest.raises(ar.NotYetSupported, match=r"`seen` is .* the function may write into"):
            make(appended)(np.ones(3), seen)


@njit
def guarded(x, y):
    x[0] *= y[1]
    if x[1] < 0.0:
        raise ValueError("negative")
    return (x * x * y).sum()


@pytest.mark.parametrize("make", [*SWEEPS, ar.hessian])
def test_a_function_that_raises_or_shares_what_it_writes(make, unfreed):
    jacobian = make(guarded, (0, 1))

    def action():
        with pytest.raises(ValueError, match="negative"):
            jacobian(np.array([1.0, -1.0]), np.ones(2))

    assert unfreed(action) == 0
    x = np.ones(2)
    with pytest.raises(ar.ShadowMismatch):
        jacobian(x, x)


@njit
def doubled(x):
    return 2.0 * x


@ar.augmented_primal(doubled)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    return ar.AugmentedReturn(doubled(x.val), np.zeros_like(x.val), x.val.copy())


@ar.reverse(doubled)
def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated):
    if dret.dval[1] != 0.0:
        raise ValueError("the second row")
    x.dval[:] += 2.0 * dret.dval * (tape == x.val)


@njit
def halved(x):
    return doubled(x * 0.25) * 1.0


def test_a_row_that_raises_loses_no_more_where_there_are_more_rows(unfreed):
    """What the code of the Jacobian holds in that moment is lost."""
    jacobian = ar.jacrev(halved)

    def action(x):
        with pytest.raises(ValueError, match="the second row"):
            jacobian(x)

    few = unfreed(lambda: action(np.ones(2)))
    many = unfreed(lambda: action(np.ones(40)))
    assert many <= few < 10


@njit
def reversed_squares(x):
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = x[-1 - i] ** 2
    return result


@pytest.mark.parametrize("make", SWEEPS)
def test_vectors_are_not_reshaped(make):
    """In a loop over small functions, views of vectors would take as long as the derivative."""

    @njit
    def blocks(x):
        return make(reversed_squares)(x)

    x = np.arange(1.0, 7.0)  # more entries than one sweep has lanes
    np.testing.assert_array_equal(blocks(x), np.fliplr(np.diag(2.0 * x[::-1])))
    (text,) = blocks.inspect_llvm().values()
    assert "numba_attempt_nocopy_reshape" not in text
