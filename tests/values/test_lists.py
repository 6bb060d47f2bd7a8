"""Typed lists as arguments with a shadow: a list of the same structure."""

import math

import numpy as np
import pytest
from numba import float64, int64, njit
from numba.typed import List

import activerules as ar
from activerules.testing import central_fdm


@njit
def smoothed(values, x):
    s = 0.0
    for i in range(len(values) - 1):
        values[i] = values[i] * values[i + 1] * x
        s += values[i]
    for v in values:
        s += v * v
    return s * values.pop()


@njit
def grows(values):
    values.append(values[0])
    return values[1]


def typed(items):
    made = List()
    for item in items:
        made.append(float(item))
    return made


def gradient(function, *args):
    return ar.autodiff(ar.Reverse, function, ar.Active, *args)


def test_gradient_and_tangent(unfreed):
    start, direction, x = np.array([1.0, 2.0, 0.5, -1.5]), np.array([0.3, -1.0, 2.0, 0.7]), 0.6
    expected = central_fdm(5, 1)(lambda t: smoothed(typed(start + t * direction), x + t), 0.0)
    values, shadow = typed(start), typed([0.0] * 4)
    (_, x_bar) = gradient(smoothed, ar.Duplicated(values, shadow), ar.Active(x))
    assert len(values) == 3  # the primal took one
    assert np.array(shadow) @ direction + x_bar == pytest.approx(expected, rel=1e-9)
    _, tangent = ar.jvp(smoothed, (typed(start), x), (typed(direction), 1.0))
    assert tangent == pytest.approx(expected, rel=1e-9)
    assert list(ar.grad(smoothed)(typed(start), x)) == list(shadow)

    def run():
        again = typed(start)
        gradient(smoothed, ar.Duplicated(again, ar.make_zero(again)), ar.Active(x))

    assert unfreed(run) == 0


def test_refused():
    values = typed([1.0, 2.0])
    for shadow in (values, typed([0.0])):
        with pytest.raises(ar.ShadowMismatch, match="`values`"):
            gradient(smoothed, ar.Duplicated(values, shadow), ar.Active(0.5))
    assert list(values) == [1.0, 2.0]
    with pytest.raises(ar.NotYetSupported, match=r"instead|Either[\s\S]*numba\.typed\.List"):
        gradient(grows, ar.Duplicated([1.0], [0.0]))


# --- items that are arrays, tuples and lists ---


@njit
def network(layers, table, points, x):
    s = x
    for W, b in layers:
        s = math.tanh(W[0, 1] * s + b[1])
    layers[0][1][0] *= s * x
    table[1][0] *= layers[0][1][0]
    points[0] = (points[1][0] * x, 2, points[0][2])
    for row in table:
        for v in row:
            s += v * v
    for a, n, b in points:
        s += a**n * b
    return s


SIZES = (6, 6, 2, 3, 3, 3)


def containers(z, numbers=(3, 2, 1)):
    """The lists with the entries of a vector in them; `numbers` are in the tuples."""
    *layers, first, second, a, b = np.split(np.array(z), np.cumsum(SIZES)[:-1])
    return (
        List([(v[:4].copy().reshape(2, 2), v[4:].copy()) for v in layers]),
        List([typed(first), typed(second)]),
        List([(float(v), n, float(w)) for v, n, w in zip(a, numbers, b, strict=True)]),
    )


def entries(layers, table, points):
    parts = [part.ravel() for layer in layers for part in layer]
    parts += [np.array(list(row)) for row in table]
    return np.concatenate([*parts, [p[0] for p in points], [p[2] for p in points]])


def test_items_that_are_arrays_tuples_and_lists(unfreed):
    """Shadows start as cotangents of what the lists hold at the end."""
    rng = np.random.default_rng(5)
    start, direction, after = (rng.normal(size=sum(SIZES)) for _ in range(3))
    x = 0.6

    def phi(t):
        at = containers(start + t * direction)
        return network(*at, x + t) + after @ entries(*at)

    def reverse():
        duplicated = list(map(ar.Duplicated, containers(start), shadows))
        return gradient(network, *duplicated, ar.Active(x))

    shadows = containers(after)
    x_bar = reverse()[-1]
    expected = central_fdm(5, 1)(phi, 0.0)
    assert entries(*shadows) @ direction + x_bar == pytest.approx(expected, rel=1e-8)
    shadows = containers(after)
    assert unfreed(reverse) == 0

    at, tangents = containers(start), containers(direction)
    _, along = ar.jvp(network, (*at, x), (*tangents, 1.0))
    assert along + after @ entries(*tangents) == pytest.approx(expected, rel=1e-8)

    gradients = ar.grad(network, argnums=(0, 1, 2))(*containers(start), x)
    assert [n for _, n, _ in gradients[2]] == [3, 2, 1]
    shadows = containers(after * 0.0)
    reverse()
    np.testing.assert_allclose(entries(*gradients), entries(*shadows))
    assert unfreed(lambda: ar.grad(network, argnums=(0, 1, 2))(*containers(start), x)) == 0
    for number in (0, 1):
        wrong = list(containers(after * 0.0))
        wrong[number].append(wrong[number][0])
        shadows = wrong
        with pytest.raises(ar.ShadowMismatch, match="a different shape"):
            reverse()


@njit
def product(matrices, x):
    for W in matrices:
        x = W @ x
    return x.sum()


@njit
def scaled(rows):
    s = 0.0
    for k in range(len(rows)):
        rows[k][0] *= rows[k - 1][1]
        s += rows[k][0] ** 2
    return s


def test_extent_tables_s2_s3_shadows_of_lists_of_arrays(unfreed):
    """Few matrices are compared in pairs, many are sorted first: both say the same."""
    x = np.array([1.0, -0.5])
    for count in (3, 40):
        matrices = [np.full((2, 2), 0.5 + 0.01 * k) for k in range(count)]
        zeros = [np.zeros((2, 2)) for _ in range(count)]

        def run(primal, shadow):
            return gradient(product, ar.Duplicated(List(primal), List(shadow)), ar.Const(x))

        for shadow, fault in (
            (matrices, "the shadow of `matrices` overlaps its primal"),
            ([*zeros[:-1], matrices[0]], "the shadow of `matrices` overlaps its primal"),
            ([*zeros[:-1], zeros[0]], "shadows of items of `matrices` overlap"),
            ([np.zeros((2, 3)), *zeros[1:]], r"`matrices\[…\]` has a different shape"),
            (zeros[:-1], "`matrices` has a different shape"),
        ):
            with pytest.raises(ar.ShadowMismatch, match=fault):
                run(matrices, shadow)
            with pytest.raises(ar.ShadowMismatch):
                unfreed(lambda shadow=shadow: run(matrices, shadow))
        assert all(not one.any() for one in zeros)
        run(matrices, zeros)
        # one matrix in two places: two shadows have a part each, one shadow has it all
        tied = [matrices[0], *matrices[:-1]]
        apart, shared = ([np.zeros((2, 2)) for _ in range(count)] for _ in range(2))
        shared[1] = shared[0]
        run(tied, apart)
        run(tied, shared)
        np.testing.assert_allclose(shared[0], apart[0] + apart[1])


def test_extent_tables_s1_s2_views_in_a_list_that_is_written():
    """Rows that overlap are one memory, and so must be those of the shadow."""

    def views(v):
        return List([v[k : k + 2] for k in range(3)])

    start, direction = np.array([0.3, 1.2, -0.7, 0.4]), np.array([1.0, 0.5, -2.0, 0.1])
    shadow = np.zeros(4)
    gradient(scaled, ar.Duplicated(views(start.copy()), views(shadow)))
    expected = central_fdm(5, 1)(lambda t: scaled(views(start + t * direction)), 0.0)
    assert shadow @ direction == pytest.approx(expected, rel=1e-9)
    zeros = List([np.zeros(2) for _ in range(3)])
    with pytest.raises(ar.ShadowMismatch, match="items of `rows` overlap, but their shadows"):
        gradient(scaled, ar.Duplicated(views(start), zeros))


# --- lists that the function changes ---


@njit
def replaced(rows, x):
    """What is left in the list is a result, though nothing is computed from it."""
    first = rows[0]
    rows.append(rows[0] * x)
    rows[0] = rows[1] * x
    if x > 1.0:
        raise ValueError("above")
    return first if x < 0.0 else rows[1]  # Const: what is in the list is all that counts


def test_replaced_lists_r1_r3_local_lists_l2_what_a_list_holds_in_the_end(unfreed):
    def rows(*items):
        return List([np.array(item) for item in items])

    values, tangents = rows([1.0, 2.0], [3.0, 4.0]), rows([0.0, 0.0], [1.0, 0.0])
    ar.autodiff(ar.Forward, replaced, ar.Duplicated(values, tangents), ar.Duplicated(0.5, 1.0))
    assert [one.tolist() for one in tangents] == [[3.5, 4.0], [1.0, 0.0], [1.0, 2.0]]
    shadow = rows([1.0, 1.0], [0.0, 0.0])
    values = rows([1.0, 2.0], [3.0, 4.0])
    gradient_of = ar.autodiff(
        ar.Reverse, replaced, ar.Const, ar.Duplicated(values, shadow), ar.Active(0.5)
    )
    assert gradient_of[-1] == 7.0
    assert [one.tolist() for one in values] == [[1.5, 2.0], [3.0, 4.0], [0.5, 1.0]]
    assert [one.tolist() for one in shadow] == [[0.0, 0.0], [0.5, 0.5]]

    def refused(error, text, items, shadows, x):
        """What is in the list after the call that fails, in which nothing is lost."""

        def run():
            values = List(items)
            given = ar.Duplicated(values, List(shadows))
            with pytest.raises(error, match=text):
                ar.autodiff(ar.Reverse, replaced, ar.Const, given, ar.Active(x))
            return [one.tolist() for one in values]

        assert unfreed(run) == 0
        return run()

    one, zero = np.ones((2, 2))
    for items, shadows in (((one, one), (zero, zero)), ((one[:1], one), (zero[:1], zero))):
        refused(ar.NotYetSupported, "by another path", items, shadows, 0.5)
    a = np.array([1.0]), np.array([2.0])
    assert refused(ValueError, "above", a, np.zeros((2, 1)), 1.5) == [[3.0], [2.0], [1.5]]


@njit
def read_elsewhere(rows, others):
    rows[0] = 2.0 * rows[0]
    return np.sum(others[0][0]) * others[1]


def test_a_list_that_is_changed_and_also_in_a_tuple_is_refused():
    """The function on a copy of the list would read what was in it before."""
    rows, shadow = List([np.ones(2)]), List([np.zeros(2)])
    for mode in (ar.Reverse, ar.Forward):
        with pytest.raises(ar.ShadowMismatch, match="not both have a shadow"):
            ar.autodiff(mode, read_elsewhere, ar.Duplicated(rows, shadow), ar.Const((rows, 1.0)))
    others = ar.Const((List([np.full(2, 3.0)]), 1.0))
    gradient(read_elsewhere, ar.Duplicated(rows, List([np.ones(2)])), others)
    assert rows[0].tolist() == [2.0, 2.0]


@njit
def inserted(rows, row):
    rows.insert(1, row)


def test_an_array_that_moves_behind_the_end_is_refused_in_forward_mode():
    """The shadow has one array for the item that it was and the item that it is."""
    values, tangents = (List([np.full(2, a), np.full(2, b)]) for a, b in ((1.0, 2.0), (3.0, 4.0)))
    row = ar.Duplicated(np.full(2, 5.0), np.full(2, 6.0))
    with pytest.raises(ar.NotYetSupported, match="moves behind the former end"):
        ar.autodiff(ar.Forward, inserted, ar.Const, ar.Duplicated(values, tangents), row)
    values, shadow = (List([np.full(2, a), np.full(2, b)]) for a, b in ((1.0, 2.0), (3.0, 4.0)))
    ar.autodiff(ar.Reverse, inserted, ar.Const, ar.Duplicated(values, shadow), row)
    assert [one[0] for one in values] == [1.0, 5.0, 2.0]
    assert [one[0] for one in shadow] == [3.0, 0.0]
    assert row.fields[1].tolist() == [10.0, 10.0]


@njit
def lengthened(values, x):
    values[0] *= x
    values.append(values[0] * x)
    return values[1] * values[2]


def test_local_lists_l1_floats_of_a_list_that_grows():
    """The derivatives of b a x² + a x, the value and what is first in the list at the end."""
    (a, b), x = (2.0, 3.0), 0.5
    values, shadow = typed([a, b]), typed([1.0, 0.0])
    _, x_bar = gradient(lengthened, ar.Duplicated(values, shadow), ar.Active(x))
    assert list(values) == [a * x, b, a * x * x]
    assert list(shadow) == [b * x * x + x, a * x * x]
    assert x_bar == 2.0 * b * a * x + a


@njit
def stacked(x):
    levels = List()
    levels.append(List([x]))
    for _ in range(2):
        level = levels[-1].copy()
        level.append(x * level[0])
        levels.append(level)
    s = 0.0
    for level in levels:
        level.sort()
        for value in level:
            s += value * value
    return s


def test_a_list_holds_copies_of_its_lists(unfreed):
    # the lists hold x three times, and x**2 three times
    x = 1.3
    slope = 6.0 * x + 12.0 * x**3
    assert ar.grad(stacked)(x) == pytest.approx(slope, rel=1e-13)
    assert ar.jvp(stacked, (x,), (1.0,))[1] == pytest.approx(slope, rel=1e-13)
    assert unfreed(lambda: ar.grad(stacked)(x)) == 0


def test_what_lists_may_hold():
    fixed = np.ones(2)
    fixed.flags.writeable = False
    with pytest.raises(ar.ShadowMismatch, match=r"read-only[\s\S]*a\.copy\(\) for a in rows"):
        gradient(scaled, ar.Duplicated(List([fixed]), ar.make_zero(List([fixed]))))
    with pytest.raises(ar.ActivityError, match="no derivative"):
        ar.grad(scaled)(List([np.ones(2, int), np.ones(2, int)]))


def test_the_reverse_runs_later(unfreed):
    """The caller may change its lists in between, but not where the floats of a shadow are."""
    start, after = (np.random.default_rng(k).normal(size=sum(SIZES)) for k in (5, 6))
    kinds = (ar.Duplicated,) * 3
    forward, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, network, ar.Active, *kinds, ar.Active
    )

    def later(change):
        lists, shadows = containers(start), containers(after)
        args = (*map(ar.Duplicated, lists, shadows), ar.Active(0.6))
        tape, *_ = forward(*args)
        change(*lists, *shadows)
        reverse(*args, 1.0, tape)
        return entries(*shadows)

    def lists_change(layers, table, points, *shadows):
        layers.append(layers.pop(0))
        table[0].append(2.0)
        points.clear()

    def array_of_a_shadow_is_replaced(*lists):
        lists[3][1] = (lists[3][1][0].copy(), lists[3][1][1])

    def shadow_grows(*lists):
        lists[4][1].append(1.0)

    shadows = containers(after)
    gradient(network, *map(ar.Duplicated, containers(start), shadows), ar.Active(0.6))
    np.testing.assert_allclose(later(lists_change), entries(*shadows))
    assert unfreed(lambda: later(lists_change)) == 0
    for change in (array_of_a_shadow_is_replaced, shadow_grows):
        with pytest.raises(ar.TapeError, match="another shadow"):
            later(change)


# --- lists that are passed on ---


@njit
def sum_of_squares(values, k):
    return values[k] ** 2 + sum_of_squares(values, k + 1) if k < len(values) else 0.0


@njit
def recursive(x):
    values = List()
    for v in x:
        values.append(v * x[0])
    return sum_of_squares(values, 0)


@njit
def sum_of_rows(rows, k):
    return rows[k].sum() + sum_of_rows(rows, k + 1) if k < len(rows) else 0.0


@njit
def recursive_by_rows(x):
    rows = List()
    for v in x:
        rows.append(x * v)
    return sum_of_rows(rows, 0)


@njit
def planted(x, n, below, values):
    if n == 0:
        return -1
    values.append(x[n - 1] * x[0])
    below.append(-1)
    node = len(below) - 1
    below[node] = planted(x, n - 1, below, values)
    return node


@njit
def chain(x):
    """A list of integers and one of floats, where each may be any list."""
    below, values = List.empty_list(int64), List.empty_list(float64)
    node, s = planted(x, len(x), below, values), 1.0
    while node >= 0:
        s = math.sin(s) + values[node]
        node = below[node]
    return s


@njit
def first(pair):
    return pair[0]


@njit
def sorted_by_key(x):
    pairs = [(v * v, v) for v in x]
    pairs.sort(key=first)
    return pairs[0][0] * pairs[1][1]


def test_lists_that_are_passed_on():
    """The primal runs first: what Numba compiled for it is not what is differentiated."""
    x, direction = np.array([0.3, -1.2, 0.7, 1.9]), np.array([1.0, 0.5, -2.0, 0.1])
    for function in (recursive, recursive_by_rows, chain, sorted_by_key):
        expected = central_fdm(5, 1)(lambda t, f=function: f(x + t * direction), 0.0)
        assert ar.grad(function)(x) @ direction == pytest.approx(expected, rel=1e-9)


def test_lists_of_arrays_from_outside_are_refused_in_a_recursion():
    with pytest.raises(ar.FloatBitsInInteger, match=r"told apart[\s\S]*calls itself[\s\S]*a loop"):
        ar.grad(lambda rows: sum_of_rows(rows, 0))(List([np.ones(3)]))


@njit
def by_first(constants, x):
    return constants[0] * x, constants[1].sum() * x[0], len(constants)


@pytest.mark.parametrize("mode", [ar.jacfwd, ar.jacrev])
def test_arrays_of_a_const_list_in_an_array_result(mode):
    """Lengths of a constant list's arrays become those of the result: they are no floats there,
    although the engine does not know the layout of the list.
    """
    constants = List([np.array([1.5, -2.0]), np.array([0.25, 3.0])])
    by_array, by_number, _ = mode(by_first, 1)(constants, np.array([0.5, -1.0]))
    np.testing.assert_array_equal(by_array, np.diag([1.5, -2.0]))
    np.testing.assert_array_equal(by_number, [3.25, 0.0])
