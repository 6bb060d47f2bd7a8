"""Optional results: numbers and arrays have a derivative, None has none and says so."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_grads


@njit
def root(x):
    return np.sqrt(x) if x > 0.0 else None


@njit
def first_above(values, limit):
    for v in values:
        if v > limit:
            return v * v
    return None


def test_a_number_has_a_derivative():
    assert ar.value_and_grad(root)(4.0) == (2.0, 0.25)
    shadow = np.ones(3)
    values = ar.Duplicated(np.array([1.0, 5.0, 7.0]), shadow)
    ar.autodiff(ar.Reverse, first_above, ar.Active, values, 3.0)
    np.testing.assert_array_equal(shadow, [1.0, 11.0, 1.0])
    assert ar.autodiff(ar.Forward, root, ar.Duplicated(4.0, 2.0)) == 0.5


def test_none_has_none(unfreed):
    shadow = np.ones(3)
    values = ar.Duplicated(np.array([1.0, 5.0, 7.0]), shadow)
    with pytest.raises(ar.NotAFloatReturn, match="returned None"):
        ar.autodiff(ar.Reverse, first_above, ar.Active, values, 9.0)
    np.testing.assert_array_equal(shadow, 1.0)

    def fails():
        with pytest.raises(ar.NotAFloatReturn, match="returned None"):
            ar.grad(first_above)(np.zeros(3), 9.0)

    assert unfreed(fails) == 0


@njit
def squares(x, n):
    return x * x if n > 0 else None


@njit
def some(x):
    """Each but the last may be None, and comes from memory of its own."""
    own = np.sin(x) if x[0] > 0.0 else None
    view = x[1:] if x[1] > 0.0 else None
    number = x[0] * x[1] if x[2] > 0.0 else None
    count = 3 if x[0] > 0.0 else None
    return own, view, number, count, np.exp(x)


@njit
def some_weighted(x, a, b, c):
    """<(a, b, c, -, 1), some(x)>, of what is not None."""
    own, view, number, _, last = some(x)
    total = last.sum()
    if own is not None:
        total += (own * a).sum()
    if view is not None:
        total += (view * b).sum()
    if number is not None:
        total += number * c
    return total


SIGNS = [np.array(signs) for signs in np.ndindex(2, 2, 2)]
A, B, C = np.array([0.3, -1.1, 0.7]), np.array([2.0, -0.4]), 1.3


def point(signs):
    return (2.0 * signs - 1.0) * np.array([0.4, 1.2, 0.9])


def by_differences(x):
    step = 1e-5
    ahead, back = (
        [some_weighted(x + sign * step * e, A, B, C) for e in np.eye(3)] for sign in (1.0, -1.0)
    )
    return (np.array(ahead) - np.array(back)) / (2.0 * step)


def cotangent_for(out):
    kept = zip((A, B, C, None, np.ones(3)), out, strict=True)
    return tuple(None if value is None else bar for bar, value in kept)


def test_an_array_that_may_be_none_has_a_pullback(unfreed):
    x = np.array([0.5, -2.0, 3.0])
    out, pullback = ar.vjp(squares, x, 1)
    np.testing.assert_array_equal(out, x * x)
    np.testing.assert_allclose(pullback(A)[0], 2.0 * x * A, rtol=1e-15)
    out, tangent = ar.jvp(squares, (x, 1), (A, None))
    np.testing.assert_allclose(tangent, 2.0 * x * A, rtol=1e-15)
    np.testing.assert_allclose(ar.jacrev(squares)(x, 1), np.diag(2.0 * x), rtol=1e-15)

    def fails():
        for derivative in (
            lambda: ar.vjp(squares, x, 0),
            lambda: ar.jvp(squares, (x, 0), (A, None)),
            lambda: ar.jacrev(squares)(x, 0),
            lambda: ar.jacfwd(squares)(x, 0),
        ):
            with pytest.raises(ar.NotAFloatReturn, match="returned None"):
                derivative()

    assert unfreed(fails) == 0


@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_entries_that_may_be_none_have_a_pullback_and_a_tangent(signs, unfreed):
    x = point(signs)
    out, pullback = ar.vjp(some, x)
    assert [entry is None for entry in out[:3]] == [not sign for sign in signs]
    expected = by_differences(x)
    for _ in range(2):  # a second sweep over the same tape
        np.testing.assert_allclose(pullback(cotangent_for(out))[0], expected, rtol=1e-8)
    absent = pullback((None, None, None, None, np.ones(3)))[0]
    np.testing.assert_allclose(absent, np.exp(x), rtol=1e-15)
    values, tangents = ar.jvp(some, (x,), (A,))
    assert [entry is None for entry in values] == [entry is None for entry in out]
    assert [entry is None for entry in tangents[:3]] == [entry is None for entry in out[:3]]
    pairs = zip(cotangent_for(out), tangents, strict=True)
    along = sum(np.sum(bar * dot) for bar, dot in pairs if bar is not None)
    np.testing.assert_allclose(along, expected @ A, rtol=1e-8)

    def run():
        out, pullback = ar.vjp(some, x)
        pullback(cotangent_for(out))
        ar.jvp(some, (x,), (A,))

    assert unfreed(run) == 0


@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_entries_that_may_be_none_have_shadows_in_split_mode(signs, unfreed):
    x = point(signs)
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, some, ar.MixedDuplicated, ar.Duplicated
    )

    def run():
        shadow = np.full(3, 0.5)
        both = ar.Duplicated(x, shadow)
        tape, out, shadows = augmented(both)
        assert [entry is None for entry in shadows] == [entry is None for entry in out]
        for bar, entry in zip(cotangent_for(out), shadows, strict=True):
            if isinstance(entry, np.ndarray):
                entry += bar
        number = None if out[2] is None else C
        reverse(both, (shadows[0], shadows[1], number, None, shadows[4]), tape)
        return shadow

    # the view is of the shadow of x, which starts at 0.5
    np.testing.assert_allclose(run(), 0.5 + by_differences(x), rtol=1e-8)
    assert unfreed(run) == 0


def test_check_grads_leaves_out_what_is_none():
    check_grads(some, (point(np.array([1.0, 0.0, 1.0])),))


def test_a_cotangent_for_what_is_none_is_refused(unfreed):
    x = point(np.zeros(3))
    _, pullback = ar.vjp(some, x)
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitNoPrimal, some, ar.MixedDuplicated, ar.Duplicated
    )

    def fails():
        with pytest.raises(ar.ShadowMismatch, match="None"):
            pullback((A, None, None, None, A))
        with pytest.raises(ar.ShadowMismatch, match="None"):
            pullback((None, None, C, None, A))
        both = ar.Duplicated(x, np.zeros(3))
        tape, _, shadows = augmented(both)
        with pytest.raises(ar.TapeError, match="None"):
            reverse(both, (None, None, C, None, shadows[4]), tape)

    assert unfreed(fails) == 0
    with pytest.raises(ar.ActivityError, match="cotangent"):
        pullback((1.0, None, None, None, A))


def test_lanes_have_entries_that_may_be_none():
    x = point(np.array([1.0, 0.0, 1.0]))
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitNoPrimal, some, ar.MixedDuplicated, ar.BatchDuplicated
    )
    shadows = np.zeros(3), np.zeros(3)
    both = ar.BatchDuplicated(x, shadows)
    tape, _, bars = augmented(both)
    for lane, weight in zip(bars, (1.0, 3.0), strict=True):
        lane[0][:] = weight * A
        lane[4][:] = weight
        assert lane[1] is None
    cotangents = tuple(
        (lane[0], None, weight * C, None, lane[4])
        for lane, weight in zip(bars, (1.0, 3.0), strict=True)
    )
    reverse(both, cotangents, tape)
    np.testing.assert_allclose(shadows[0], by_differences(x), rtol=1e-8)
    np.testing.assert_allclose(shadows[1], 3.0 * by_differences(x), rtol=1e-8)


def test_a_pullback_of_what_may_be_none_is_differentiated_again():
    @njit
    def slopes(x):
        out, pullback = ar.vjp(squares, x, 1)
        return pullback(out)[0].sum()  # the sum of 2 x^3

    @njit
    def of_the_last(x):
        _, pullback = ar.vjp(some, x)
        return pullback((None, None, None, None, x))[0].sum()  # the sum of x exp(x)

    x = np.array([0.5, -2.0, 3.0])
    np.testing.assert_allclose(ar.grad(slopes)(x), 6.0 * x * x, rtol=1e-14)
    np.testing.assert_allclose(ar.grad(of_the_last)(x), (1.0 + x) * np.exp(x), rtol=1e-14)

    @njit
    def of_none(x):
        out, pullback = ar.vjp(squares, x, 0)
        return pullback(out)[0].sum()

    with pytest.raises(ar.NotAFloatReturn, match="returned None"):
        ar.grad(of_none)(x)


def test_a_jacobian_of_an_entry_that_may_be_none_is_refused():
    for derivative in (ar.jacrev, ar.jacfwd):
        with pytest.raises(ar.NotYetSupported, match="may be None"):
            derivative(some)(A)


def test_a_tuple_that_may_be_none_has_a_derivative_alone():
    @njit
    def pair(x):
        return (x * x, x.sum()) if x[0] > 0.0 else None

    x = np.array([0.5, -2.0])
    _, pullback = ar.vjp(pair, x)
    np.testing.assert_allclose(pullback((np.ones(2), 1.0))[0], 2.0 * x + 1.0)
    with pytest.raises(ar.NotAFloatReturn, match="returned None"):
        ar.vjp(pair, -x)

    @njit
    def inside(x):
        return ((x * x, x.sum()) if x[0] > 0.0 else None), x.sum()

    with pytest.raises(ar.NotYetSupported, match="a tuple that may be None a cotangent"):
        ar.vjp(inside, x)


@njit
def halved(x):
    return 0.0 if x is None else 0.5 * x


@ar.augmented_primal(halved)
def _(config, ret, x: ar.Active):
    return ar.AugmentedReturn(halved(x.val), None, None)


@ar.reverse(halved)
def _(config, dret, tape, x: ar.Active):
    return 0.5 * dret.val


def test_refusals_name_the_type_of_an_argument_that_may_be_none():
    def of_rule(x):
        perhaps = x if x > 0.0 else None
        return halved(perhaps)

    def of_hessian(x):
        perhaps = x if x > 0.0 else None
        return ar.hessian(halved)(perhaps)

    with pytest.raises(ar.UnsupportedIR, match=r"active data, and is float64 \| None"):
        ar.grad(of_rule)(2.0)
    with pytest.raises(ar.NotYetSupported, match=r"`x` may be None: it is float64 \| None"):
        njit(of_hessian)(2.0)
