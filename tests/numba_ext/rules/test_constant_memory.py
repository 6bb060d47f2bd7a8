"""Memory without derivatives that is passed to rules, and changes before the reverse reads it."""

import numba
import numpy as np
import pytest
from numba import typed, types
from numba.experimental import jitclass

import activerules as ar

pytestmark = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPendingDeprecationWarning")

X = np.array([0.5, -0.7, 0.3])
W = np.array([1.0, 2.0, -1.0])
W.setflags(write=False)


@jitclass([("count", types.int64), ("table", types.int64[:])])
class Counter:
    def __init__(self):
        self.count = 2
        self.table = np.array([2])


def a_dictionary():
    result = typed.Dict.empty(types.int64, types.int64)
    result[0] = 2
    return result


@numba.njit
def number_in_tuple(c):
    return c[0][0]


@numba.njit
def raise_in_tuple(c):
    c[0][0] += 1


@numba.njit
def item(c):
    return c[0]


@numba.njit
def raise_item(c):
    c[0] += 1


@numba.njit
def size(c):
    return len(c)


@numba.njit
def add_one(c):
    c.add(len(c))


@numba.njit
def count_and_table(c):
    return c.count + c.table[0] - 2


@numba.njit
def raise_count(c):
    c.count += 1


@numba.njit
def in_tuple(c):
    return c[0].table[0]


@numba.njit
def raise_table(c):
    c[0].table[0] += 1


# a value in which 2 is, what reads that number, and what raises it by one
KINDS = {
    "tuple of arrays": (lambda: (np.array([2]), 1), number_in_tuple, raise_in_tuple),
    "list": (lambda: [2.0, 1.0], item, raise_item),
    "set": (lambda: {0, 1}, size, add_one),
    "typed list": (lambda: typed.List([2, 1]), item, raise_item),
    "typed list of arrays": (
        lambda: typed.List([np.array([2])]),
        number_in_tuple,
        raise_in_tuple,
    ),
    "dictionary": (a_dictionary, item, raise_item),
    "instance": (Counter, count_and_table, raise_count),
    "tuple of an instance": (lambda: (Counter(),), in_tuple, raise_table),
}
WRITABLE = ("tuple of arrays", "instance", "tuple of an instance", "typed list of arrays")


def later(kind):
    """Σ x³ k (k + 1), where k is the number in `c`, raised after the call of a function with a
    rule.
    """
    _, number, raised = KINDS[kind]

    @numba.njit
    def weighted(x, c):
        return np.sum(x**3) * number(c)

    @ar.augmented_primal(weighted)
    def weighted_augmented(config, ret: ar.Active, x: ar.Duplicated, c: ar.Const):
        return ar.AugmentedReturn(weighted(x.val, c.val), None, None)

    @ar.reverse(weighted)
    def weighted_reverse(config, dret: ar.Active, tape, x: ar.Duplicated, c: ar.Const):
        x.dval[:] += 3.0 * x.val**2 * number(c.val) * dret.val
        return None, None

    @numba.njit
    def program(x, c):
        y = weighted(x, c)
        raised(c)
        return y * number(c)

    return program


def inside(kind):
    """Σ x³ (k + 1)², where the function with the rule raises k; its reverse finds k."""
    _, number, raised = KINDS[kind]

    @numba.njit
    def weighted(x, c):
        raised(c)
        return np.sum(x**3) * number(c)

    @ar.augmented_primal(weighted, saves=("x", "c"))
    def weighted_augmented(config, ret: ar.Active, x: ar.Duplicated, c: ar.Const):
        return ar.AugmentedReturn(weighted(x.val, c.val), None, None)

    @ar.reverse(weighted)
    def weighted_reverse(config, dret: ar.Active, tape, x: ar.Duplicated, c: ar.Const):
        raised(c.val)
        x.dval[:] += 3.0 * x.val**2 * number(c.val) * dret.val
        return None, None

    @numba.njit
    def program(x, c):
        return weighted(x, c) * number(c)

    return program


@pytest.mark.parametrize("kind", KINDS)
def test_a_reverse_finds_what_the_augmented_primal_left(kind, unfreed):
    gradient = ar.grad(later(kind))
    np.testing.assert_allclose(gradient(X, KINDS[kind][0]()), 18.0 * X**2, rtol=1e-12)
    assert unfreed(lambda: gradient(X, KINDS[kind][0]())) == 0


@pytest.mark.parametrize("kind", WRITABLE)
def test_saves_keeps_what_was_there_before(kind, unfreed):
    gradient = ar.grad(inside(kind))
    np.testing.assert_allclose(gradient(X, KINDS[kind][0]()), 27.0 * X**2, rtol=1e-12)
    assert unfreed(lambda: gradient(X, KINDS[kind][0]())) == 0


@pytest.mark.parametrize("kind", WRITABLE[:2])
def test_second_derivatives_of_pairs_that_save(kind):
    """Each run of the reverse begins with what was there before the call."""
    program = inside(kind)

    @numba.njit
    def slope(x, c):
        return np.dot(ar.grad(program)(x, c), W)

    found = ar.grad(slope)(X, KINDS[kind][0]())
    np.testing.assert_allclose(found, 54.0 * X * W, rtol=1e-12)


@pytest.mark.parametrize("kind", WRITABLE[:2])
def test_each_lane_of_a_forward_rule_for_one_tangent_begins_with_the_same(kind):
    make, number, raised = KINDS[kind]

    @numba.njit
    def weighted(x, c):
        raised(c)
        return np.sum(x**3) * number(c)

    @ar.forward(weighted)
    def weighted_forward(config, ret: ar.Duplicated, x: ar.Duplicated, c: ar.Const):
        y = weighted(x.val, c.val)
        return y, 3.0 * np.sum(x.val**2 * x.dval) * number(c.val)

    program = numba.njit(lambda x, c: weighted(x, c) * number(c))
    c = make()
    lanes, value = ar.autodiff(
        ar.ForwardWithPrimal, program, ar.BatchDuplicated(X, tuple(np.eye(3))), ar.Const(c)
    )
    np.testing.assert_allclose(lanes, 27.0 * X**2, rtol=1e-12)
    assert value == pytest.approx(9.0 * np.sum(X**3))
    assert number(c) == 3


def test_a_tape_with_an_array_of_a_tuple():
    @numba.njit
    def weighted(x, c):
        return np.sum(x**3) * c[0][0]

    @ar.augmented_primal(weighted)
    def weighted_augmented(config, ret: ar.Active, x: ar.Duplicated, c: ar.Const):
        return ar.AugmentedReturn(weighted(x.val, c.val), None, c.val[0])

    @ar.reverse(weighted)
    def weighted_reverse(config, dret: ar.Active, tape, x: ar.Duplicated, c: ar.Const):
        x.dval[:] += 3.0 * x.val**2 * tape[0] * dret.val
        return None, None

    @numba.njit
    def program(x, c):
        y = weighted(x, c)
        c[0][0] += 1
        return y * c[0][0]

    np.testing.assert_allclose(ar.grad(program)(X, (np.array([2]),)), 18.0 * X**2, rtol=1e-12)


def test_an_array_of_integers_beside_one_of_floats():
    @numba.njit
    def weighted(x):
        x[1][0] += 1
        return np.sum(x[0] ** 3) * x[1][0]

    @ar.augmented_primal(weighted, saves="x")
    def weighted_augmented(config, ret: ar.Active, x: ar.Duplicated):
        return ar.AugmentedReturn(weighted(x.val), None, None)

    @ar.reverse(weighted)
    def weighted_reverse(config, dret: ar.Active, tape, x: ar.Duplicated):
        x.dval[0][:] += 3.0 * x.val[0] ** 2 * (x.val[1][0] + 1) * dret.val
        return None

    @numba.njit
    def program(x, c):
        y = weighted((x, c))
        c[0] += 1
        return y * c[0]

    np.testing.assert_allclose(ar.grad(program)(X, np.array([2])), 36.0 * X**2, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "change", "number"),
    [
        (lambda: {0, 1}, add_one, size),
        (lambda: [2.0], raise_item, item),
        (lambda: (np.array([2]),), raise_in_tuple, number_in_tuple),
    ],
    ids=["set", "list", "tuple"],
)
def test_checkpoints_and_nested_gradients_of_functions_that_write_them(make, change, number):
    @numba.njit
    def weighted(x, c):
        change(c)
        return np.sum(x**3) * number(c)

    np.testing.assert_allclose(ar.grad(ar.checkpoint(weighted))(X, make()), 9.0 * X**2, rtol=1e-12)
    if isinstance(make(), list):
        return  # floats in a list that is written are refused
    slope = numba.njit(lambda x, c: np.dot(ar.grad(weighted)(x, c), W))
    np.testing.assert_allclose(ar.grad(slope)(X, make()), 18.0 * X * W, rtol=1e-12)


def test_what_cannot_be_copied_is_refused():
    """A list of lists."""
    make, number, change = (lambda: [[2]]), number_in_tuple, raise_in_tuple
    KINDS["list of lists"] = (make, number, change)
    program = later("list of lists")
    del KINDS["list of lists"]
    inner = numba.njit(lambda x, n: program(x, [[n]]))
    with pytest.raises(ar.NotYetSupported, match="may change before its rule reads it"):
        ar.grad(inner)(X, 2)


def test_a_record_that_a_pair_changes_is_refused_in_second_derivatives():
    """Its copy is in an array, which nothing keeps between the runs of the reverse."""

    @numba.njit
    def weighted(x, c):
        y = x**3 * c.count
        c.count += 1
        return y

    @ar.augmented_primal(weighted, saves="c")
    def weighted_augmented(config, ret: ar.Active, x: ar.Active, c: ar.Const):
        return ar.AugmentedReturn(weighted(x.val, c.val), None, None)

    @ar.reverse(weighted, saves="c")
    def weighted_reverse(config, dret: ar.Active, tape, x: ar.Active, c: ar.Const):
        return 3.0 * x.val**2 * c.val.count * dret.val, None

    def record():
        return np.array([(2,)], np.dtype([("count", np.int64)]))[0]

    program = numba.njit(lambda x, c: weighted(x, c))
    assert ar.grad(program)(0.5, record()) == 1.5
    with pytest.raises(ar.NotYetSupported, match="may change before its rule reads it"):
        ar.grad(ar.grad(program))(0.5, record())


def test_a_pullback_that_is_differentiated_keeps_copies():
    """Of what has no derivatives, too: an instance, a dictionary, an array of records."""
    records = np.array([(2,)], np.dtype([("count", np.int64)]))

    @numba.njit
    def weighted(x, counter, table, rows):
        return np.sum(x**3) * counter.count * table[0] * rows[0].count

    @numba.njit
    def slope(x, counter, table, rows):
        _, pullback = ar.vjp(weighted, x, counter, table, rows)
        counter.count += 1
        table[0] += 1
        rows[0].count += 1
        return np.dot(pullback(1.0)[0], W)

    found = ar.grad(slope)(X, Counter(), a_dictionary(), records)
    np.testing.assert_allclose(found, 48.0 * X * W, rtol=1e-12)
