"""Arguments that share memory: right when their shadows share it alike, else right or refused."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing.numeric import directional_derivative


@njit
def reads_both(a, b):
    s = 0.0
    for i in range(len(a)):
        s += a[i] * a[i] * b[i]
    return s


@njit
def writes_first_reads_second(a, b):
    s = 0.0
    for i in range(len(a)):
        a[i] = a[i] * b[i] + 0.5
        s += b[i] * b[i] * a[i]
    return s


@njit
def copies_shifted(a, b):
    for _ in range(3):
        for i in range(len(a)):
            a[i] = b[i] * a[i]
    return a[0] * b[len(b) - 1]


@njit
def writes_one_place(a, b):
    s = a[1] * a[1]
    b[0] = 5.0
    return s * b[0] + a[2] * b[1]


@njit
def reads_what_it_wrote(a, b):
    """The same values are kept for arrays apart, where the last one is known without reading it."""
    a[1] *= a[1]
    b[1] += np.sin(a[1])
    return a[1] * a[1]


@njit
def adds_a_stencil(a, b):
    """No value is kept, but for arrays apart three cotangents are added up in registers."""
    for i in range(1, len(a) - 1):
        b[i] += 0.3 * (a[i - 1] + 2.0 * a[i] + a[i + 1])
    return b[1]


VIEWS = {
    "the same array": lambda x: (x, x),
    "shifted by one": lambda x: (x[:-1], x[1:]),
    "shifted back": lambda x: (x[1:], x[:-1]),
    "reversed": lambda x: (x, x[::-1]),
    "interleaved": lambda x: (x[::2], x[1::2]),
    "disjoint halves": lambda x: (x[:4], x[4:]),
}


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize(
    "program",
    [
        reads_both,
        writes_first_reads_second,
        copies_shifted,
        writes_one_place,
        reads_what_it_wrote,
        adds_a_stencil,
    ],
    ids=lambda f: f.__name__,
)
def test_shadows_that_overlap_as_the_arguments_do(program, views):
    rng = np.random.default_rng(0)
    x, start, x_dot = rng.normal(size=(3, 8))

    def phi(x):
        value = program(*views(x))
        return value + start @ x

    expected, error = directional_derivative(phi, (x,), (x_dot,))
    primal, shadow = x.copy(), start.copy()
    try:
        annotated = [
            ar.Duplicated(a, a_bar) for a, a_bar in zip(views(primal), views(shadow), strict=True)
        ]
        ar.autodiff(ar.Reverse, program, ar.Active, *annotated)
    except ar.ShadowMismatch:
        np.testing.assert_array_equal(primal, x)
        np.testing.assert_array_equal(shadow, start)
        return
    assert shadow @ x_dot == pytest.approx(expected, abs=10 * error + 1e-9)


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS.keys())
def test_separate_shadows_of_arguments_that_are_only_read(views):
    rng = np.random.default_rng(1)
    x, x_dot = rng.normal(size=(2, 8))
    expected, error = directional_derivative(lambda x: reads_both(*views(x)), (x,), (x_dot,))
    shadows = [np.zeros(8), np.zeros(8)]
    bars = [views(shadow)[i] for i, shadow in enumerate(shadows)]
    ar.autodiff(
        ar.Reverse,
        reads_both,
        ar.Active,
        *(ar.Duplicated(a, a_bar) for a, a_bar in zip(views(x), bars, strict=True)),
    )
    assert (shadows[0] + shadows[1]) @ x_dot == pytest.approx(expected, abs=10 * error + 1e-9)


def test_const_array_that_overlaps_an_active_one():
    x = np.array([1.0, 2.0, 3.0, 4.0])
    shadow = np.zeros(4)
    try:
        ar.autodiff(ar.Reverse, reads_both, ar.Duplicated(x, shadow), ar.Const(x))
    except ar.ActiverulesError:
        np.testing.assert_array_equal(shadow, 0.0)
    else:
        np.testing.assert_allclose(shadow, 2 * x * x)


@njit
def eliminates(a, n):
    """Rows are taken for n long: with more columns than that, an entry is one of the next row."""
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    s = 0.0
    for k in range(n):
        s += a[k, k] * a[k, k]
    return s


@njit
def gradient_of_a_copy(a, n):
    a_bar = np.zeros_like(a)
    ar.autodiff(ar.Reverse, eliminates, ar.Duplicated(a.copy(), a_bar), ar.Const(n))
    return a_bar


@pytest.mark.parametrize("n", [4, 5], ids=["as assumed", "past the end of a row"])
@pytest.mark.parametrize("called", ["autodiff", "grad", "compiled"])
def test_arguments_that_are_not_as_a_derivative_assumes(called, n):
    """The version for any arguments runs: compiled with the other one, or when first needed."""
    rng = np.random.default_rng(2)
    a, a_dot = rng.normal(size=(2, 12, 4)) + 3.0
    expected, error = directional_derivative(lambda a: eliminates(a.copy(), n), (a,), (a_dot,))
    if called == "grad":
        a_bar = ar.grad(eliminates)(a.copy(), n)
    elif called == "compiled":
        a_bar = gradient_of_a_copy(a, n)
    else:
        a_bar = np.zeros_like(a)
        ar.autodiff(ar.Reverse, eliminates, ar.Duplicated(a.copy(), a_bar), ar.Const(n))
    assert np.sum(a_bar * a_dot) == pytest.approx(expected, rel=1e-7, abs=10 * error + 1e-9)


def test_errors_of_the_version_for_overlapping_arguments_stand_alone():
    """That the other version was tried first is no part of the user's story."""

    @njit
    def raises(a, b):
        a[0] = b[0] * b[1]
        if a[0] > 0.0:
            raise ValueError("as the program says")
        return a[0] * b[0]

    x, shadow = np.ones(3), np.zeros(3)
    with pytest.raises(ValueError, match="as the program says") as caught:
        ar.autodiff(ar.Reverse, raises, ar.Duplicated(x, shadow), ar.Duplicated(x, shadow))
    assert caught.value.__context__ is None
    np.testing.assert_array_equal(shadow, 0.0)


def test_memory_k6_items_that_share_memory_are_refused():
    """Each would get the sum of the derivatives by all of them."""
    gradient = ar.grad(njit(lambda a: (a[:, 1] * a[:, 1]).sum()))
    x = np.arange(12.0)
    windows, rows = np.lib.stride_tricks.sliding_window_view(x, 3), x.reshape(4, 3)
    # [3, 0] is [0, 2]
    steps = np.lib.stride_tricks.sliding_window_view(np.arange(14.0), 7)[::2, ::3]
    for shared in (np.broadcast_to(rows[:1], (2, 3)), windows[:2], windows[::-2], windows.T, steps):
        with pytest.raises(ar.ShadowMismatch, match="items of `a` share memory"):
            gradient(shared)
    for apart in (windows[::3], windows[:1], rows[::-2, ::-1], rows.T[:, ::2]):
        assert np.array_equal(gradient(apart)[:, 1], 2 * apart[:, 1])


@njit
def of_squares(x):
    return (x * x).sum()


@pytest.mark.parametrize(
    ("primal", "shadow"),
    [
        (np.s_[0, ::2], np.s_[0, 1::2]),
        (np.s_[0, ::-2], np.s_[0, -2::-2]),
        (np.s_[0, 0:16:2], np.s_[0, 4:20:2]),
        (np.s_[0, 0:15:3], np.s_[0, 2:17:3]),
        (np.s_[:, ::2], np.s_[:, 1::2]),
        (np.s_[:, :1], np.s_[:, 1:2]),
        (np.s_[::2, 0:12:4], np.s_[::2, 4:16:4]),
    ],
)
def test_memory_k2_a_shadow_may_lie_in_the_gaps_of_its_primal(primal, shadow):
    """Refused if and only if they share memory."""
    memory = np.arange(80.0).reshape(4, 20)
    x, dx = memory[primal], memory[shadow]
    expected = dx + 2.0 * x
    if np.shares_memory(x, dx):
        with pytest.raises(ar.ShadowMismatch, match="`x` may overlap its primal"):
            ar.autodiff(ar.Reverse, of_squares, ar.Active, ar.Duplicated(x, dx))
    else:
        ar.autodiff(ar.Reverse, of_squares, ar.Active, ar.Duplicated(x, dx))
        np.testing.assert_array_equal(dx, expected)


MIXED = np.dtype([("a", "f8"), ("n", "i4")], align=True)


@njit
def field_in_place(r):
    r.a[1:] *= 2  # Numba copies from the field, or from a copy of it should the two overlap
    return (r.a**2 * r.n).sum()


def test_a_field_of_records_with_integers_is_changed_in_place():
    r = np.array([(3.0, 1), (1.0, 2), (2.0, 3)], MIXED)
    shadow = np.array([(0.5, 7), (-0.5, 8), (0.25, 9)], MIXED)
    ar.autodiff(ar.Reverse, field_in_place, ar.Active, ar.Duplicated(r, shadow))
    assert r["a"].tolist() == [3.0, 2.0, 4.0]
    assert r["n"].tolist() == [1, 2, 3]
    np.testing.assert_allclose(shadow["a"], [0.5 + 6, 2 * (-0.5 + 8), 2 * (0.25 + 24)])
    assert shadow["n"].tolist() == [7, 8, 9]


@njit
def cleared(x, a, b):
    """The derivative is the sum of what `a` held when it was read; `b` may clear it after that."""
    s = 0.0
    for i in range(len(a)):
        s += x * a[i]
        b[i] = 0.0
    return s


def test_memory_k3_constants_may_overlap_where_one_is_written():
    for views in VIEWS.values():
        slope = cleared(1.0, *views(np.arange(1.0, 9.0)))
        assert ar.grad(cleared)(2.0, *views(np.arange(1.0, 9.0))) == slope


def test_memory_k1_records_that_overlap_are_refused():
    particles = np.zeros(4, np.dtype([("x", float), ("v", float)]))
    overlapping = np.lib.stride_tricks.as_strided(particles, (4,), (8,))
    shadow = np.lib.stride_tricks.as_strided(np.zeros_like(particles), (4,), (8,))
    energy = njit(lambda particles: particles[1].x ** 2)
    with pytest.raises(ar.ShadowMismatch, match="are not those of whole records"):
        ar.autodiff(ar.Reverse, energy, ar.Duplicated(overlapping, shadow))
