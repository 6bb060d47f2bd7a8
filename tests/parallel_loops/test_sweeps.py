"""What the threads of a sweep share: against closed forms, and the same loops without threads."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, prange
from numba.typed import List

import activerules as ar

RNG = np.random.default_rng(4)


def annotated(args, shadow):
    """Arrays of floats with shadows that are not zero, numbers Active; the rest as it is."""
    for x in args:
        if isinstance(x, np.ndarray):
            yield ar.Duplicated(x.copy(), np.full_like(x, shadow))
        else:
            yield ar.Active(x) if isinstance(x, float) else ar.Const(x)


def reverse_of(f, *args):
    """The value, all derivatives, and the arrays after the call."""
    passed = [*annotated(args, 0.25)]
    slopes, value = ar.autodiff(ar.ReverseWithPrimal, f, ar.Active, *passed)
    arrays = [p for p in passed if isinstance(p, ar.Duplicated)]
    return [value, *(s for s in slopes if s is not None), *(p.dval for p in arrays)], [
        p.val for p in arrays
    ]


def forward_of(f, *args):
    """The value, its tangent, and the tangents of all arrays."""
    passed = [
        ar.Duplicated(p.val, 0.5) if isinstance(p, ar.Active) else p for p in annotated(args, 0.25)
    ]
    tangent, value = ar.autodiff(ar.ForwardWithPrimal, f, ar.Duplicated, *passed)
    return [value, tangent, *(p.dval for p in passed if isinstance(p.val, np.ndarray))]


def assert_as_without_threads(f, *args):
    plain, threaded = njit(f), ar.parallel(f)
    expected, after = reverse_of(plain, *args)
    found, threaded_after = reverse_of(threaded, *args)
    for a, b in zip([*expected, *after], [*found, *threaded_after], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12)
    for a, b in zip(forward_of(plain, *args), forward_of(threaded, *args), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12)


def reductions(x, w, scale):
    s, p, count, least = 0.0, 1.0, 0, 7.0
    for i in prange(len(x)):
        s -= scale * x[i] * w[0]
        p *= 1.0 + 0.1 * x[i] * w[1]
        count += 1
        least = min(least, x[i] * w[2])
    return s * p * count + least


def test_s1_reductions_and_an_array_that_all_iterations_read(threads):
    assert_as_without_threads(reductions, RNG.normal(size=11), RNG.normal(size=3), 0.7)


def rotated(points, rotation):
    turned = np.empty((points.shape[0], 2))
    for i in prange(points.shape[0]):
        turned[i] = (rotation @ points[i])[:2]
    s = 0.0
    for i in prange(len(turned)):
        side = turned[(i + 1) % len(turned)] - turned[i]
        s += np.dot(side / np.linalg.norm(side), turned[i])
    return s


def test_s1_arrays_that_are_passed_to_blas_are_only_read(threads):
    assert_as_without_threads(rotated, RNG.normal(size=(6, 3)), RNG.normal(size=(3, 3)))


def two_colours(u, c, steps):
    """Gauss-Seidel by colours: iterations read what others of the same loop do not write."""
    for step in range(2 * steps):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                if (i + j + step) % 2 == 0:
                    u[i, j] += c * np.sin(u[i - 1, j] * u[i + 1, j] + u[i, j - 1] * u[i, j + 1])
    return (u * u).sum()


def test_s1_neighbours_share_the_shadow_of_an_array_that_is_written_in_place(threads):
    assert_as_without_threads(two_colours, 0.5 * RNG.normal(size=(13, 6)), 0.3, 2)


@njit
def distance(x, i, j):
    return math.sqrt((x[i, 0] - x[j, 0]) ** 2 + (x[i, 1] - x[j, 1]) ** 2 + 0.1)


def pairs(x, force):
    for i in prange(len(x)):
        force[i, 0] = 0.0
        for j in range(len(x)):
            force[i, 0] += 1.0 / distance(x, i, j)
    total = np.zeros(2)
    for i in prange(len(x)):
        total += force[i, 0] * x[i]
    return (total * total).sum()


def test_s1_each_group_has_a_shadow_of_what_is_passed_whole_to_functions(threads):
    assert_as_without_threads(pairs, RNG.normal(size=(9, 2)), np.ones((9, 2)))


def slopes(x):
    left, right = x[:-1], x[1:]
    s = 0.0
    for i in prange(len(left)):
        s += left[i] * (right[i] - left[i]) ** 2
    return s


@pytest.mark.parametrize("n", [12, 2, 1])
def test_s1_arrays_that_overlap_share_nothing(threads, n):
    assert_as_without_threads(slopes, RNG.normal(size=n))


def overwritten_later(x):
    right, both = x[1:], (x[:-1], 2.0)
    s = 0.0
    for i in prange(len(right)):
        s += x[i] * right[i] + right[0] * both[0][i] * both[1]
    x[:] = 0.5
    return s


@pytest.mark.parametrize("n", [9, 2])
def test_s1_nor_do_arrays_whose_saved_values_do_not_overlap(threads, n):
    assert_as_without_threads(overwritten_later, RNG.normal(size=n))


def equal_rows(w, n):
    rows = np.broadcast_to(w, (n, 2))
    s = 0.0
    for i in prange(n):
        s += rows[i, 0] * rows[i, 1] ** 2
    return s


def test_s1_rows_that_are_the_same_memory_are_refused():
    with pytest.raises(ar.ShadowMismatch, match="items of `rows` share memory"):
        ar.grad(ar.parallel(equal_rows))(np.array([2.0, 3.0]), 50)


def ring(x):
    s = 0.0
    for i in prange(len(x)):
        s += x[i] * x[i - 1] ** 2
    return s


def test_s1_nor_does_a_subscript_that_counts_from_the_end(threads):
    x = RNG.normal(size=10)
    expected = np.roll(x, 1) ** 2 + 2 * x * np.roll(x, -1)
    np.testing.assert_allclose(ar.grad(ar.parallel(ring))(x), expected, rtol=1e-13)


def by_element(x, c):
    s = 0.0
    for i in prange(len(x)):
        s += x[i] * c[()]
    return s


def test_s1_each_group_has_an_array_of_one_element(threads):
    assert_as_without_threads(by_element, RNG.normal(size=9), np.array(0.3))


class Model(NamedTuple):
    rates: tuple[float, complex]
    weights: np.ndarray
    order: int


def with_model(x, model):
    s = 0.0
    for i in prange(len(x)):
        for w in model.weights:
            s += w * model.rates[0] * x[i] ** model.order
        s += (model.rates[1] * x[i] * 1j).real
    return s


def with_rates(x, rates):
    s = 0.0
    for i in prange(len(x)):
        s += rates[0] * math.sin(rates[1] * x[i])
    return s


def with_arrays(x, pair):
    s = 0.0
    for i in prange(len(x)):
        s += pair[0][i] * pair[1][len(x) - 1 - i] * x[i]
    return s


@pytest.mark.parametrize(
    ("f", "parameters"),
    [
        (with_rates, (0.7, 1.3)),
        (with_arrays, (RNG.normal(size=11), RNG.normal(size=11))),
        (with_model, Model((0.4, 0.3 + 0.2j), RNG.normal(size=3), 2)),
    ],
    ids=["numbers", "arrays", "both"],
)
def test_s1_each_group_has_a_part_of_the_derivative_of_a_tuple(threads, f, parameters):
    x = RNG.normal(size=11)
    mark = ar.Active if f is with_rates else ar.Duplicated
    mark = ar.MixedDuplicated if f is with_model else mark
    found = []
    for called in (njit(f), ar.parallel(f)):
        given = () if mark is ar.Active else (ar.tree_add(parameters, parameters),)
        x_bar = np.full(11, 0.25)
        (_, slopes), _ = ar.autodiff(
            *(ar.ReverseWithPrimal, called, ar.Active),
            *(ar.Duplicated(x, x_bar), mark(parameters, *given)),
        )
        found.append((x_bar, slopes, *given, *ar.jvp(called, (x, parameters), (x, parameters))))
    expected, in_threads = (leaves(each) for each in found)
    assert len(expected) == len(in_threads) > 2
    for a, b in zip(expected, in_threads, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12)


def leaves(x):
    """The numbers and arrays in nested tuples."""
    if isinstance(x, tuple):
        return [leaf for part in x for leaf in leaves(part)]
    return [] if x is None else [x]


def shifted(x, out):
    for i in prange(len(x)):
        out[i] = out[len(x) - 1 - i] * x[i]
    return out.sum()


def with_rows(x, rows):
    for i in prange(len(x)):
        rows[0][i] = x[i] ** 2
    return rows[0].sum()


def of_list(values, x):
    s = 0.0
    for i in prange(len(x)):
        s += values[i] * x[i]
    return s


def of_records(bodies):
    s = 0.0
    for i in prange(len(bodies)):
        s += bodies[i].mass * bodies[i].speed ** 2
    return s


def marked(x, marks):
    s = 0.0
    for i in prange(len(x)):
        marks[i] = 1
        s += x[i] ** 2
    return s


def noise(x):
    s = 0.0
    for i in prange(len(x)):
        s += x[i] * np.random.normal()
    return s


def test_s1_what_cannot_be_told_apart_is_refused_when_the_derivative_is_compiled():
    with pytest.raises(ar.NotYetSupported, match="`out` may be written, there or in a function"):
        ar.grad(ar.parallel(shifted), argnums=(0, 1))(np.ones(4), np.ones(4))
    with pytest.raises(ar.NotYetSupported, match="variables for the arrays in `rows`"):
        ar.grad(ar.parallel(with_rows), argnums=(0, 1))(np.ones(4), (np.ones(4),))
    with pytest.raises(ar.NotYetSupported, match="`values` is List"):
        ar.grad(ar.parallel(of_list))(List([1.0, 2.0]), np.ones(2))
    bodies = np.ones(3, dtype=[("mass", "f8"), ("speed", "f8")]).view(np.recarray)
    passed = ar.Duplicated(bodies, np.zeros_like(bodies))
    with pytest.raises(ar.NotYetSupported, match=r"`bodies` is .* with a derivative"):
        ar.autodiff(ar.Reverse, ar.parallel(of_records), ar.Active, passed)
    with pytest.raises(ar.NotYetSupported, match=r"`marks` is .* that is written"):
        ar.grad(ar.parallel(marked))(np.ones(2), List([0, 0]))
    with pytest.raises(ar.NotYetSupported, match="random numbers are drawn"):
        ar.grad(ar.parallel(noise))(np.ones(4))


@njit
def inverse(x):
    return 1.0 / x


@ar.augmented_primal(inverse)
def inverse_augmented(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(inverse(x.val), None, None)


@ar.reverse(inverse)
def inverse_reverse(config, dret: ar.Active, tape, x: ar.Active):
    if x.val < 0.0:
        raise ValueError("no derivative here")
    return -dret.val / x.val**2


def inverses(x):
    s = 0.0
    for i in prange(len(x)):
        s += inverse(x[i])
    return s


@pytest.mark.parametrize("k", [0, 5])
def test_an_error_of_the_sweep_alone_is_raised(threads, k):
    x = np.ones(6)
    x[k] = -1.0
    f = ar.parallel(inverses)
    assert f(x) == 4.0
    with pytest.raises(ValueError, match="no derivative here"):
        ar.grad(f)(x)
    np.testing.assert_allclose(ar.grad(f)(np.full(6, 2.0)), -0.25)
