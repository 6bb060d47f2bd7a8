"""Arrays of records that are copied: floats and integers side by side."""

import numpy as np
import pytest
from numba import njit
from numba.typed import Dict, List

import activerules as ar
from activerules.testing import gradient_fd

PARTICLE = np.dtype([("x", np.float64), ("kind", np.int32), ("mass", np.float32), ("n", np.int64)])
PACKED = np.dtype([("x", np.float64), ("mass", np.float64), ("kind", np.int32)])


@njit
def in_order(given):
    """Insertion sort of a copy, record by record."""
    p, held = given.copy(), np.zeros_like(given[:1])
    for i in range(1, len(p)):
        j = i
        while j > 0 and p[j - 1].x > p[j].x:
            held[0] = p[j]
            p[j] = p[j - 1]
            p[j - 1] = held[0]
            j -= 1
    s = 0.0
    for i in range(len(p)):
        s += (i + 1) * p[i].x ** 2 + p[i].x * p[i].mass * p[i].kind
    return s


@njit
def by_indices(given, order):
    p = given[order]
    for i in range(1, len(p)):
        p[i].x += p[i - 1].x * p[i].mass
        p[i].kind += p[i - 1].kind
    s = 0.0
    for i in range(len(p)):
        s += p[i].x * p[i].x * p[i].kind
    return s


@njit
def with_sums_of_fields(given):
    """The sums advance pointers by the size of a record."""
    p = given.copy()
    s = 0.0
    for i in range(len(p)):
        s += p[i].x ** 2 * p[i].mass * p[i].kind
    return s + p["x"].sum() * p["mass"].sum()


@njit
def the_largest(given):
    """A pointer to one of several records of a copy."""
    p = given.copy()
    largest = p[0]
    for each in p:
        if each.x > largest.x:
            largest = each
    s = largest.x**2 * largest.mass
    for each in p:
        s += each.x * each.mass * each.kind
    return s


def particles(dtype):
    found = np.zeros(4, dtype)
    found["x"], found["mass"], found["kind"] = (
        [0.7, -0.4, 1.9, 0.2],
        [1.5, 0.5, 2.0, 3.0],
        [1, 2, 3, 4],
    )
    return found


@pytest.mark.parametrize("dtype", [PARTICLE, PACKED])
@pytest.mark.parametrize(
    ("program", "rest"),
    [
        (in_order, ()),
        (by_indices, (np.array([3, 0, 2]),)),
        (with_sums_of_fields, ()),
        (the_largest, ()),
    ],
)
def test_copies_of_records_carry_the_derivative_of_each_field(program, rest, dtype):
    given = particles(dtype)

    def of_places(x):
        moved = given.copy()
        moved["x"] = x
        return program(moved, *rest)

    slopes = ar.grad(program)(given, *rest)
    assert slopes["x"] == pytest.approx(gradient_fd(of_places, (given["x"].copy(),)), rel=1e-6)
    tangent = np.zeros_like(given)
    tangent["mass"][2] = 1.0
    _, moved = ar.jvp(program, (given, *rest), (tangent, *[None for _ in rest]))
    assert slopes["mass"][2] == pytest.approx(moved, rel=1e-6)
    assert moved != 0.0


@njit
def squares(given):
    s = 0.0
    for p in given.copy():
        s += p.a**2
    return s


@njit
def squares_of_two_copies(given):
    return (given.copy().copy().a ** 2).sum() + given[1:].copy()[-1].a


@njit
def summed(given):
    """Squared first: the sum reads at addresses that are computed from strides."""
    c = given.copy()
    for i in range(len(c)):
        c[i].a = given[i].a ** 2
    return c.a.sum()


@njit
def slices_assigned(given):
    c = np.zeros_like(given)
    c[:] = given
    c[1:] = given[:-1]
    return (c.a**2).sum()


@njit
def shifted(given):
    """Numba copies the slice first, as it overlaps what it is assigned to."""
    c = given.copy()
    c[1:] = c[:-1]
    return (c.a**2).sum()


@njit
def items_assigned(given):
    c = np.zeros(5, given.dtype)
    for i in range(len(given)):
        c[i + 1] = given[i]
        c[i] = c[i + 1]
    return (c.a**2).sum()


BESIDE = [("n", np.int32), ("a", np.float64)]
EIGHT_BYTES = [("a", np.float32), ("n", np.int32)]
TWO_PRECISIONS = [("a", np.float64), ("b", np.float32)]


@pytest.mark.parametrize(
    ("program", "fields"),
    [
        (squares, BESIDE),
        (squares, [("a", np.float64), ("n", np.int8)]),
        (squares, [("a", np.float32), ("n", np.int16)]),
        (squares, [("n", np.int32), ("a", np.float64), ("m", np.int32)]),
        (squares_of_two_copies, BESIDE),
        (squares_of_two_copies, TWO_PRECISIONS),
        (slices_assigned, BESIDE),
        (slices_assigned, TWO_PRECISIONS),
        (slices_assigned, [("n", np.int32), ("a", np.float64), ("m", np.int32)]),
        (shifted, BESIDE),
        (shifted, TWO_PRECISIONS),
        (shifted, EIGHT_BYTES),
        (items_assigned, BESIDE),
        (items_assigned, EIGHT_BYTES),
        (items_assigned, [("a", np.float32), ("b", np.float32)]),
        (summed, BESIDE),
        (summed, TWO_PRECISIONS),
    ],
)
def test_copies_of_packed_records_with_fields_that_are_not_read(program, fields):
    given = np.zeros(3, fields)
    given["a"] = [1.5, 0.5, -0.75]
    before, tangents = np.array([10.0, 20.0, 30.0]), np.array([1.0, 2.0, 3.0])
    expected = 2.0 * given["a"]
    expected[2] += program is squares_of_two_copies
    if program in {slices_assigned, shifted}:
        expected *= [2.0, 1.0, 0.0]
    if program is items_assigned:
        expected *= [1.0, 1.0, 2.0]
    shadow, tangent = ar.make_zero(given), ar.make_zero(given)
    shadow["a"], tangent["a"] = before, tangents
    ar.autodiff(ar.Reverse, program, ar.Active, ar.Duplicated(given, shadow))
    np.testing.assert_array_equal(shadow["a"], before + expected)
    _, moved = ar.jvp(program, (given,), (tangent,))
    assert moved == expected @ tangents


@njit
def seen_as_floats(given):
    """Puts a float where an integer is declared, and copies it with the record."""
    p = given.copy()
    p.view(np.float64)[2] = p[0].x
    return p.copy().view(np.float64)[2] * given[1].x


def test_a_float_where_an_integer_is_declared():
    given = np.zeros(4, [("x", np.float64), ("kind", np.int64), ("n", np.int64)])
    given["x"] = [2.0, 3.0, 5.0, 7.0]
    np.testing.assert_array_equal(ar.grad(seen_as_floats)(given)["x"], [3.0, 2.0, 0.0, 0.0])
    with pytest.raises(ar.FloatBitsInInteger, match="another precision"):
        ar.grad(seen_as_floats)(particles(PARTICLE))


@njit
def in_containers(held):
    """Changes a record in one of the arrays; reads floats and integers of both."""
    held[0][1].x *= held[1][0].mass
    s = 0.0
    for i in range(3):
        s += held[0][i].x ** 2 * held[0][i].kind + held[1][i].x * held[1][i].n
    return s


@njit
def overlapping(held):
    """Writes to one array what is read from another that shares its memory."""
    held[0][1].x *= 2.0
    return held[0][1].x * held[1][0].x * held[1][0].kind


@njit
def seen_as_floats_in_lists(held):
    """Puts a float where an integer is declared."""
    held[0].view(np.float64)[2] = held[1][0].x
    return held[0][0].n * held[1][1].x


def in_dict(arrays):
    held = Dict()
    for k, array in enumerate(arrays):
        held[k] = array
    return held


@pytest.mark.parametrize("held_in", [List, in_dict])
def test_arrays_of_records_in_lists_and_dictionaries(held_in):
    first, second = particles(PARTICLE), particles(PARTICLE)[::-1].copy()
    first["n"], second["n"] = 3, [2, 3, 4, 5]
    held = held_in([first, second])
    shadow = ar.make_zero(held)
    shadow[0]["x"][0] = 10.0
    x, moved, mass = first["x"].copy(), first["x"].copy(), np.float64(second["mass"][0])
    moved[1] *= mass
    ar.autodiff(ar.Reverse, in_containers, ar.Active, ar.Duplicated(held, shadow))
    expected = np.append(2.0 * moved[:3] * first["kind"][:3], 0.0)
    expected[0] += 10.0
    of_mass = expected[1] * x[1]
    expected[1] *= mass
    np.testing.assert_allclose(shadow[0]["x"], expected)
    np.testing.assert_allclose(shadow[1]["x"], np.append(second["n"][:3], 0.0))
    np.testing.assert_allclose(shadow[1]["mass"], [of_mass, 0.0, 0.0, 0.0], rtol=1e-6)


def test_arrays_of_records_in_a_list_that_share_memory():
    given, shadow = particles(PARTICLE), np.zeros(4, PARTICLE)
    held, shadows = List([given, given[1:]]), List([shadow, shadow[1:]])
    ar.autodiff(ar.Reverse, overlapping, ar.Active, ar.Duplicated(held, shadows))
    # d/dx (2 x)² kind, where the item is the same in both
    np.testing.assert_allclose(shadow["x"], [0.0, 8.0 * -0.4 * 2, 0.0, 0.0])


def test_a_float_where_an_integer_is_declared_in_a_list():
    given = np.zeros(4, [("x", np.float64), ("kind", np.int64), ("n", np.int64)])
    held = List([given, given.copy()])
    shadow = ar.make_zero(held)
    with pytest.raises(ar.FloatBitsInInteger, match="integer arithmetic"):
        ar.autodiff(ar.Reverse, seen_as_floats_in_lists, ar.Active, ar.Duplicated(held, shadow))


SITE = np.dtype(
    [("place", np.float64, (3,)), ("charge", np.float32), ("kind", np.int16)], align=True
)


def sites():
    given = np.zeros(4, SITE)
    given["place"] = np.random.default_rng(5).normal(size=(4, 3))
    given["charge"], given["kind"] = [0.5, -1.0, 2.0, 1.5], [1, 2, 3, 1]
    return given


@njit
def of_pairs(given, scale):
    p = given.copy()
    for i in range(p.size):
        p[i].place[:] = p[i].place * scale
    s = 0.0
    for i in range(p.size):
        for j in range(i):
            d = p[i].place - p[j].place
            s += (d * d).sum() * p[i].kind * p[j].charge
    return s + p["place"].sum()


def test_vectors_beside_integers_and_other_floats_in_a_copy():
    given, shadow = sites(), np.zeros(4, SITE)
    ar.autodiff(ar.Reverse, of_pairs, ar.Active, ar.Duplicated(given, shadow), ar.Const(1.25))

    def of_places(place):
        p = given.copy()
        p["place"] = place
        return of_pairs(p, 1.25)

    expected = gradient_fd(of_places, (given["place"].copy(),))
    assert shadow["place"] == pytest.approx(expected, rel=1e-6)


@njit
def of_bits(given):
    p = given.copy()
    bits, s = p.view(np.int64), 0.0
    for i in range(p.size):
        for k in range(3):
            s += bits[4 * i + k] * p[i].place[2]
    return s


@njit
def of_stored_bits(given):
    p = given.copy()
    bits, s = p.view(np.int64), 0.0
    for i in range(p.size):
        for k in range(3):
            bits[4 * i + k + 1] = bits[4 * i + k]
        s += p[i].kind * p[i].place[2]
    return s


@pytest.mark.parametrize(
    ("f", "error"), [(of_bits, ar.FloatBitsInInteger), (of_stored_bits, ar.UnsupportedIR)]
)
def test_integers_that_meet_such_a_vector_are_refused(f, error):
    given, shadow = sites(), np.zeros(4, SITE)
    with pytest.raises(error):
        ar.autodiff(ar.Reverse, f, ar.Active, ar.Duplicated(given, shadow))


CELL = np.dtype(
    [("x", np.float64, (3,)), ("links", np.int64, (3,)), ("n", np.int64), ("flags", np.int8, (3,))]
)


@njit
def of_linked(cells):
    s = 0.0
    for c in range(cells.size):
        cell = cells[c]
        for k in range(cell["n"]):
            cell["links"][k] = (cell["links"][k] + 1) % 3
            cell["x"][cell["links"][k]] += cell["x"][k] ** 2 if cell["flags"][k] else 1.0
            s += cell["x"][k] * cell["links"][k]
    return s


def test_arrays_of_integers_whose_items_are_chosen_when_the_program_runs():
    """Declared D3: numbers of links, and which they are, are in the records."""
    given, shadow = np.zeros(2, CELL), np.zeros(2, CELL)
    given["x"] = np.random.default_rng(9).normal(size=(2, 3))
    given["links"], given["n"], given["flags"] = [[1, 0, 2], [2, 2, 1]], [3, 2], [1, 0, 1]
    ar.autodiff(ar.Reverse, of_linked, ar.Active, ar.Duplicated(given.copy(), shadow))

    def of_numbers(x):
        cells = given.copy()
        cells["x"] = x
        return of_linked(cells)

    expected = gradient_fd(of_numbers, (given["x"].copy(),))
    assert shadow["x"] == pytest.approx(expected, rel=1e-6)


PACKED_SITE = np.dtype([("charge", np.float64), ("place", np.float64, (3,)), ("kind", np.int32)])


@njit
def of_scaled_places(p):
    """What `*=` leaves is copied onto itself, here also at 44 bytes from the start."""
    for i in range(p.size):
        p[i].place[:] *= p[i].charge
    return p[0].place[1] * p[1].place[2]


@njit
def with_scaled_places(given, numbers):
    for i in range(given.size):
        given[i].charge, given[i].place[:] = numbers[i, 0], numbers[i, 1:]
    return of_scaled_places(given)


def test_vectors_in_packed_records_that_are_copied():
    given, shadow = np.zeros(4, PACKED_SITE), np.zeros(4, PACKED_SITE)
    numbers = np.random.default_rng(6).normal(size=(4, 4))
    given["kind"] = shadow["kind"] = [1, 2, 3, 4]
    given["charge"], given["place"] = numbers[:, 0], numbers[:, 1:]
    p = given.copy()
    ar.autodiff(ar.Reverse, of_scaled_places, ar.Active, ar.Duplicated(p, shadow))
    assert list(shadow["kind"]) == [1, 2, 3, 4]
    found = np.column_stack([shadow["charge"], shadow["place"]])

    def of_numbers(x):
        return with_scaled_places(given.copy(), x)

    assert found == pytest.approx(gradient_fd(of_numbers, (numbers,)), rel=1e-6)


@njit
def written_through_a_view(x, n):
    """Views as floats reach the integers, too."""
    p = np.zeros(n, PACKED_BESIDE)
    floats = p.view(np.float64)
    for i in range(floats.size):
        floats[i] = x * (i + 1)
    q = np.zeros(n, PACKED_BESIDE)
    q[1].kind = p[0].kind
    return q.view(np.float64)[4] ** 2 + p[1].x


PACKED_BESIDE = np.dtype([("x", np.float64), ("kind", np.int64), ("mass", np.float64)])


def test_inactive_values_v4_what_is_declared_of_new_records_is_not_believed_beside_a_view():
    assert ar.grad(written_through_a_view)(1.5, 3) == pytest.approx(2 * 4 * 1.5 + 4)


@njit
def counted(n):
    """A function without derivative that is not inlined, as it calls itself."""
    p = np.zeros(2, PACKED_SITE)
    p[1].kind = n
    return p[1].kind + (counted(n - 1) if n > 0 else 1)


@njit
def times_count(x, n):
    return x * x * counted(n)


def test_records_of_a_function_that_is_taken_over_as_it_is():
    assert ar.grad(times_count)(1.5, 3) == pytest.approx(3.0 * counted(3))
    assert ar.jvp(times_count, (1.5, 3), (1.0, None))[1] == pytest.approx(3.0 * counted(3))


@njit
def with_cleared_vectors(p, scale):
    """Constant parts of vectors are cleared; all records, at odd distances, are added up."""
    p[0].place[:] = 0.0
    p[1].place[1:] = 0.0
    p["charge"][:] *= scale
    p["place"][:] += p["place"] * p[2].charge
    return (p["place"] ** 2).sum() + p["charge"].sum()


@pytest.mark.parametrize("numbers", ["x", "scale"])
def test_vectors_in_packed_records_that_are_cleared(numbers):
    given = np.zeros(4, ODD_SITE)
    given["charge"], given["place"] = 0.5, np.random.default_rng(8).normal(size=(4, 3))

    def of_places(x):
        p = given.copy()
        p["place"] = x
        return with_cleared_vectors(p, 1.5)

    shadow = np.zeros(4, ODD_SITE)
    found = ar.autodiff(
        ar.Reverse,
        with_cleared_vectors,
        ar.Active,
        ar.Duplicated(given.copy(), shadow),
        ar.Active(1.5),
    )
    if numbers == "x":
        expected = gradient_fd(of_places, (given["place"].copy(),))
        assert shadow["place"] == pytest.approx(expected, rel=1e-6)
    else:
        expected = gradient_fd(lambda s: with_cleared_vectors(given.copy(), s), (1.5,))
        assert found[1] == pytest.approx(expected, rel=1e-6)


ODD_SITE = np.dtype([("on", np.bool_), ("place", np.float64, (3,)), ("charge", np.float64)])
