"""Gradients of any kind inside functions that are themselves differentiated."""

import math
from collections import namedtuple

import numpy as np
import pytest
from numba import float64, njit, types
from numba.experimental import jitclass, structref
from numba.typed import Dict, List

import activerules as ar
from activerules import (
    Active,
    BatchDuplicated,
    Const,
    Duplicated,
    Forward,
    MixedDuplicated,
    Reverse,
    ReverseSplitWithPrimal,
    ReverseWithPrimal,
    autodiff,
    autodiff_thunk,
)
from activerules.testing import check_gradient

X = np.array([0.3, -0.8, 1.2])
D = np.array([0.5, 0.1, -0.3])


@njit
def product(x, y):
    return x * x * math.sin(y)


@njit
def of_scalars(x, y):
    (by_x, by_y), value = autodiff(ReverseWithPrimal, product, Active(x * y), Active(y))
    return by_x * by_y + value * x


@njit
def overwriting(x, s):
    t = 0.0
    for i in range(x.size):
        x[i] = x[i] * x[i] * s + math.sin(x[i])
        t += x[i] * s * x[i]
    return t


@njit
def dot(x, y):
    s = 0.0
    for i in range(x.size):
        s += x[i] * y[i]
    return s


@njit
def scaled(x, s):
    y = np.empty(x.size)
    for i in range(x.size):
        y[i] = x[i] * s
    return y


@njit
def of_written_memory(x, s, d):
    """The shadow holds a cotangent of what is written; shadow and memory are used afterwards."""
    y, dy = np.zeros(6)[::2], np.zeros(6)[::2]
    for i in range(3):
        y[i], dy[i] = 1.5 * x[i], d[i] * s
    (_, by_s), value = autodiff(ReverseWithPrimal, overwriting, Duplicated(y, dy), Active(s * s))
    return by_s * value + dot(dy, dy) + dot(y, dy)


@njit
def result_into(out, x, scratch, a):
    for i in range(x.size):
        scratch[i] = a[i] * x[i] * x[i]
    for i in range(x.size):
        out[i] = scratch[i] * scratch[i - 1]


@njit
def of_an_output(x, d, a):
    """The return is Const: the cotangent is in the shadow of the output. `a` is Const inside. In a
    loop, so that everything is overwritten.
    """
    total, w = 0.0, x.copy()
    for _ in range(2):
        out, dout, dx, scratch = np.zeros(3), d.copy(), np.zeros(3), np.zeros(3)
        autodiff(
            Reverse,
            result_into,
            Const,
            Duplicated(out, dout),
            Duplicated(w, dx),
            Duplicated(scratch, np.zeros(3)),
            Const(a * a),
        )
        total += dot(dx, out)
        for i in range(3):
            w[i] -= 0.1 * dx[i]
    return total


Spring = namedtuple("Spring", ["stiffness", "ends"])


@njit
def energy(spring, pair):
    stretch = spring.ends[0][1] - spring.ends[0][0]
    return 0.25 * abs(spring.stiffness) ** 2 * stretch**4 + pair[0] * pair[1] ** 2 * stretch


@njit
def of_tuples(x, k, c):
    spring, shadow = Spring(complex(k, c), (x,)), Spring(0j, (np.zeros(3),))
    by_spring, by_pair = autodiff(
        Reverse, energy, MixedDuplicated(spring, shadow), Active((k, c * k))
    )
    found = by_spring.stiffness
    return found.real * found.imag * shadow.ends[0][0] + by_pair[0] * by_pair[1]


@njit
def chain(x, a, n):
    y = np.empty(x.size)
    for i in range(x.size):
        y[i] = x[i] * math.sin(x[i - 1] * a)
    x[0] = a
    return y, y[0] * a, n


@njit
def of_a_pullback(x, a):
    """Called twice, after its arguments have changed; the cotangents vary, too."""
    z = scaled(x, a)
    (y, s, _), pullback = ar.vjp(chain, z, a, 2)
    z[1] = 3.0
    by_x, by_a, _ = pullback((scaled(y, a), s, None))
    again, again_a, _ = pullback((y, 1.0, None))
    return dot(by_x, by_x) + by_a * a + dot(again, x) * again_a + z[0]


augmented, pulled = ar.autodiff_thunk(
    ReverseSplitWithPrimal, chain, MixedDuplicated, Duplicated, Active, Const
)


@njit
def of_a_thunk(x, a):
    z, dz = scaled(x, a), scaled(x, 2.0)
    tape, (_, s, _), (dy, _, _) = augmented(Duplicated(z, dz), Active(a), 2)
    dy[1] += z[1] * a
    _, by_a, _ = pulled(Duplicated(z, dz), Active(a), 2, (dy, s, None), tape)
    return dot(dz, dz) * by_a + z[0] * s + dy[1]


@njit
def spread_out(x, s):
    x *= s
    return np.sin(x) * x[1]


@njit
def of_lanes(x, s):
    y, z, d, e = scaled(x, s), scaled(x, 0.5), scaled(x, 1.0), scaled(x, 0.3)
    (_, (one, other)), value = autodiff(
        ReverseWithPrimal, overwriting, BatchDuplicated(y, (d, e)), Active(s)
    )
    first, second = autodiff(
        Forward, overwriting, BatchDuplicated(z, (d, e)), BatchDuplicated(s, (1.0, s))
    )
    return dot(d, e) + one * other * value + y[0] + first * second * z[0]


first_half, second_half = autodiff_thunk(
    ReverseSplitWithPrimal, spread_out, Duplicated, BatchDuplicated, Active
)


@njit
def of_a_batched_thunk(x, s):
    """A thunk that writes its argument and returns an array, for two cotangents."""
    y, d, e = scaled(x, s), scaled(x, 0.5), scaled(x, 1.0)
    batch = BatchDuplicated(y, (d, e))
    tape, out, (one, other) = first_half(batch, Active(s))
    one += x
    other += out
    _, (by_s, by_t) = second_half(batch, Active(s), tape)
    return dot(d, e) + by_s * by_t + y[0]


@njit
def bent(x):
    return (np.exp(np.sin(x)) * x[0] * x).sum()


@njit
def of_one_array_twice(x):
    return ar.hvp(bent, x, x).sum()


comparing = Reverse.runtime_activity()
compared, pulled_compared = autodiff_thunk(
    ReverseSplitWithPrimal.runtime_activity(), dot, Active, Duplicated, Duplicated
)


@njit
def of_comparisons(x, w):
    """With the argument for a shadow, it is constant: in all of them, and then in none."""
    total = 0.0
    for own in (True, False):
        d, e = scaled(x, 2.0), scaled(w, 3.0)
        shadow = w if own else e
        autodiff(comparing, dot, Duplicated(x, d), Duplicated(w, shadow))
        _, value = autodiff(
            comparing.with_primal(),
            dot,
            BatchDuplicated(x, (scaled(w, 1.0), d)),
            BatchDuplicated(w, (shadow, scaled(x, 1.0))),
        )
        args = Duplicated(x, d), Duplicated(w, shadow)
        tape, _, _ = compared(*args)
        pulled_compared(*args, value, tape)
        along = autodiff(Forward.runtime_activity(), dot, Duplicated(x, d), Duplicated(w, shadow))
        total += dot(d, e) * along
    return total


@njit
def weighted_dot(x, y, s, n):
    return s * s * n * dot(x, y)


@njit
def of_comparisons_beside_numbers(x, w, s):
    d = scaled(x, 2.0)
    args = Duplicated(x, d), Duplicated(w, w), Active(s), 2
    return autodiff(comparing, weighted_dot, *args)[2] * dot(d, x)


@njit
def root(z, p, n):
    return z * z * p[0] * n + np.exp(p[1] * z)


@njit
def of_holomorphic_functions(x):
    z, p = complex(x, 2.0), (complex(x, x), 1j * x)
    by_z, (by_p, by_q), _ = autodiff(Reverse.holomorphic(), root, Active(z), Active(p), 2)
    return by_z.real * by_z.imag + by_p.imag * by_q.real


@njit
def of_a_holomorphic_value(x):
    """The value of f beside f', and both vary."""
    mode = ReverseWithPrimal.holomorphic()
    (by_z, (_, by_q), _), w = autodiff(
        mode, root, Active(complex(x, 2.0)), Active((complex(x, x), 1j * x)), 2
    )
    return (w * by_z).real + (w * by_q).imag


@njit
def weighted_squares(items, s, fixed):
    t = 0.0
    for i in range(len(items)):
        items[i] = items[i] * items[i - 1] * s
        t += items[i] * s * fixed[i] ** 2
    return t


@njit
def list_of(x):
    items = List()
    for value in x:
        items.append(value)
    return items


@njit
def of_lists(x):
    """A list whose items are written, and a constant one of Python's."""
    items, d, fixed = list_of(x), list_of(x * x), [value * value for value in x]
    (_, by_s, _), value = autodiff(
        ReverseWithPrimal, weighted_squares, Duplicated(items, d), Active(x[0]), fixed
    )
    return items[0] * d[1] * by_s + d[2] * value


@njit
def cubes(items):
    return items[0] ** 3 * items[1] + items[2] ** 3


@njit
def of_a_pullback_of_a_list(x):
    """It keeps a copy."""
    items = list_of(x)
    value, pullback = ar.vjp(cubes, items)
    items[0] = 2.0
    return pullback(x[0])[0][0] * value


@njit
def weighted_by_items(pair, items):
    s = 0.0
    for i in range(3):
        s += pair[0][i] * pair[1][0][i] * items[i]
    return s * s


@njit
def of_comparisons_of_parts(x, w):
    """Tuples of which only some arrays are constant, and lists."""
    total = 0.0
    for own in (True, False):
        d, e = scaled(x, 2.0), scaled(w, 3.0)
        items, others = list_of(w * x), list_of(x * x)
        shadow = d, (w if own else e, 2)
        of_items = items if own else others
        args = Duplicated((x, (w, 2)), shadow), Duplicated(items, of_items)
        autodiff(comparing, weighted_by_items, *args)
        total += dot(d, e) + of_items[0] * d[1]
    return total


@njit
def optional_parts(x, s):
    y = x[0] * s * x[0]
    x[0][1] = s
    return (y if s > 0.0 else None), (complex(s, s * y[0]) if s > -10.0 else None)


@njit
def of_a_pullback_of_optional_parts(x, s):
    z = scaled(x, s)
    (y, c), pullback = ar.vjp(optional_parts, (z,), s)
    z[0] = 3.0
    (one,), by_s = pullback((scaled(x, s), complex(s, s * s)))
    total = one[1] * by_s
    if y is not None:
        total += y[0]
    if c is not None:
        total += (c * c).imag
    return total


recorded_parts, pulled_parts = autodiff_thunk(
    ReverseSplitWithPrimal, optional_parts, MixedDuplicated, Duplicated, Active
)


@njit
def of_a_thunk_of_optional_parts(x, s):
    """The cotangent of an optional array is in its shadow, which may be passed, too."""
    z, dz = scaled(x, s), scaled(x, 2.0)
    args = Duplicated((z,), (dz,)), Active(s)
    tape, _, (d, _) = recorded_parts(*args)
    other, _, (e, _) = recorded_parts(*args)
    if d is not None:
        d[1] += x[1] * s
    if e is not None:
        e[2] += x[1] * s
    _, by_s = pulled_parts(*args, (d, complex(s, s * s)), tape)
    _, again = pulled_parts(*args, (None, None), other)
    return dot(dz, x) * by_s + again


constant = np.array([0.5, 0.1, -0.3])


@njit
def along_a_constant(x):
    """The tangent is a global array: what is written, and returned, is a copy of it."""
    _, y = ar.jvp(spread_out, (scaled(x, 1.0), 2.0), (constant, None))
    y[0] += 1.0
    return dot(y, ar.hvp(bent, x, constant))


PROGRAMS = [
    (of_comparisons, (X, D)),
    (of_holomorphic_functions, (0.7,)),
    (of_a_holomorphic_value, (0.7,)),
    (of_lists, (X,)),
    (of_a_pullback_of_a_list, (X,)),
    (of_comparisons_of_parts, (X, D)),
    (of_a_pullback_of_optional_parts, (X, 0.7)),
    (of_a_thunk_of_optional_parts, (X, 0.7)),
    (of_a_thunk_of_optional_parts, (X, -0.7)),
    (along_a_constant, (X,)),
    (of_one_array_twice, (X,)),
    (of_a_batched_thunk, (X, 0.7)),
    (of_scalars, (0.7, 1.3)),
    (of_written_memory, (X, 0.7, D)),
    (of_an_output, (X, D, np.array([1.1, 0.4, -0.6]))),
    (of_tuples, (X, 0.8, 1.7)),
    (of_a_pullback, (X, 0.7)),
    (of_a_thunk, (X, 0.7)),
    (of_lanes, (X, 0.7)),
    (of_comparisons_beside_numbers, (X, D, 0.7)),
]


@pytest.mark.parametrize(("f", "args"), PROGRAMS, ids=lambda f: getattr(f, "__name__", ""))
def test_against_finite_differences(f, args):
    check_gradient(f, args)


def test_forward_mode_agrees_and_nothing_is_leaked(unfreed):
    f, args = of_written_memory, (X, 0.7, D)
    gradient = ar.grad(f, tuple(range(len(args))))
    found = gradient(*args)
    tangents = tuple(np.cos(X) if np.ndim(a) else 0.3 for a in args)
    _, forwards = ar.jvp(f, args, tangents)
    expected = sum(np.sum(g * t) for g, t in zip(found, tangents, strict=True))
    assert forwards == pytest.approx(expected, rel=1e-10)
    assert unfreed(lambda: gradient(*args)) == 0
    assert unfreed(lambda: ar.jvp(f, args, tangents)) == 0


def refused(f, *args):
    with pytest.raises(ar.NotYetSupported) as caught:
        ar.grad(f)(*args)
    return str(caught.value)


@njit
def neighbours(x, y):
    x[0] = x[0] * y[1]
    return x[0]


@njit
def of_overlapping_memory(x):
    dy, dz = np.zeros(2), np.zeros(2)
    autodiff(Reverse, neighbours, Duplicated(x[1:], dy), Duplicated(x[:2], dz))
    return dy[0] * dz[1]


def test_arguments_that_share_written_memory_are_refused():
    error = refused(of_overlapping_memory, X)
    assert "share memory that the function writes" in error
    assert "def neighbours(x, y):" in error


@njit
def tail(x):
    return x[1:]


of_tail, pulled_tail = ar.autodiff_thunk(ReverseSplitWithPrimal, tail, Duplicated, Duplicated)


@njit
def of_a_view(x):
    dx = np.zeros_like(x)
    tape, _, shadow = of_tail(Duplicated(x, dx))
    shadow[1] += 1.0
    pulled_tail(Duplicated(x, dx), tape)
    return dx[2] * x[2]


def test_a_thunk_of_a_view_is_refused():
    assert "memory of its arguments" in refused(of_a_view, X)


cube, by_cube = ar.autodiff_thunk(ReverseSplitWithPrimal, product, Active, Active, Active)


@njit
def pulls_twice(x):
    args = Active(x), Active(x)
    tape, _, _ = cube(*args)
    by_cube(*args, 1.0, tape)
    return by_cube(*args, 1.0, tape)[0]


def test_misuse():
    with pytest.raises(ar.TapeError, match="used a second time"):
        ar.grad(pulls_twice)(2.0)


@njit
def into_its_argument(x):
    autodiff(Reverse, dot, Active, Duplicated(x, x), Const(X))
    return x[0]


def test_a_shadow_that_is_the_primal_is_refused():
    with pytest.raises(ar.ShadowMismatch, match="the shadow of `x` overlaps its primal"):
        ar.grad(into_its_argument)(X.copy())


def test_strong_zero_of_the_outer_mode():
    """A zero cotangent of a nested gradient stays zero, whatever the second derivative is."""

    @njit
    def padded(x, table):
        return np.sum(np.where(np.isnan(table), 0.0, x * x * table))

    slopes = ar.grad(padded)

    @njit
    def last_slope(x, table):
        return slopes(x, table)[1]

    x, table, shadow = np.ones(2), np.array([np.nan, 4.0]), np.zeros(2)
    ar.autodiff(ar.Reverse.strong_zero(), last_slope, ar.Duplicated(x, shadow), table)
    np.testing.assert_array_equal(shadow, [0.0, 8.0])
    along = ar.Duplicated(x, np.array([0.0, 1.0]))
    assert ar.autodiff(ar.Forward.strong_zero(), last_slope, along, table) == 8.0


@njit
def scaled_record(given, s):
    given[0].a *= s
    return given[0].a ** 2 * given[0].n


@jitclass([("a", float64[::1])])
class Held:
    def __init__(self, a):
        self.a = a


@njit
def of_object(held, s):
    return held.a[0] ** 2 * s * s


slope_of_scaled_record = ar.grad(scaled_record, argnums=1)
slope_of_object = ar.grad(of_object, argnums=1)


def test_tangents_of_records_and_objects_that_the_inner_gradient_takes_as_constant():
    @njit
    def of_record(given, s):
        return slope_of_scaled_record(given, s)

    given = np.zeros(2, [("a", np.float64), ("n", np.int64)])
    given["a"], given["n"] = 0.5, 3
    tangent = ar.make_zero(given)
    tangent["a"][0] = 1.0
    along = ar.Duplicated(given, tangent), ar.Duplicated(0.7, 0.0)
    # 2 s a² n, and s a in place of a
    assert ar.autodiff(ar.Forward, of_record, *along) == pytest.approx(4 * 0.7 * 0.5 * 3)
    np.testing.assert_allclose(tangent["a"], [0.7, 0.0])

    @njit
    def of_held(held, s):
        return slope_of_object(held, s)

    held = ar.Duplicated(Held(np.array([0.5])), Held(np.array([1.0])))
    moved = ar.autodiff(ar.Forward, of_held, held, ar.Duplicated(0.7, 0.0))
    assert moved == pytest.approx(4 * 0.7 * 0.5)


@njit
def of_items(items, s):
    return items[0][0] ** 2 * s * s


slope_of_items = ar.grad(of_items, argnums=1)


@njit
def slope_with_items(items, s):
    return slope_of_items(items, s)


@structref.register
class HolderType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(ty)) for name, ty in fields)


class Holder(structref.StructRefProxy):
    pass


structref.define_proxy(Holder, HolderType, ["items", "k"])
slope_of_holder = ar.grad(njit(lambda h, s: h.items[0][0] * h.k * s * s), argnums=1)


@njit
def slope_with_holder(h, s):
    return slope_of_holder(h, s)


def items_of_list(x):
    return List([np.array([x])])


def items_of_dict(x):
    items = Dict()
    items[0] = np.array([x])
    return items


@pytest.mark.parametrize(
    ("slope", "made"),
    [
        (slope_with_items, items_of_list),
        (slope_with_items, items_of_dict),
        (slope_with_holder, lambda x: Holder(items_of_list(x), 0.25)),
    ],
)
def test_items_have_no_tangents_in_forward_mode(slope, made):
    """Where they are constants of the inner gradient."""
    s, moving = ar.Duplicated(0.7, 1.0), ar.Duplicated(made(0.5), made(1.0))
    held = ar.autodiff(ar.Forward, slope, ar.Duplicated, ar.Const(made(0.5)), s)
    assert held == pytest.approx(2.0 * 0.5 * 0.5 if slope is slope_with_items else 2 * 0.5 * 0.25)
    with pytest.raises(ar.NotYetSupported, match="takes a list or dictionary as a constant"):
        ar.autodiff(ar.Forward, slope, ar.Duplicated, moving, s)


@njit
def cubic(x, y):
    return x[0] ** 2 * y[0] ** 3 + x[1] * y[1] ** 2


mixed_derivatives = ar.jacobian(ar.grad(cubic, argnums=1), argnums=0)


@njit
def sum_of_mixed_derivatives(x, y):
    return mixed_derivatives(x, y).sum()


def test_third_derivatives_with_respect_to_arrays_with_gaps():
    """The inner shadows, of which the ends are computed from strides, are cleared."""
    x, y = np.array([0.5, 9.0, 0.7, 9.0])[::2], np.array([1.5, 9.0, 2.0, 9.0])[::2]
    by_x, by_y = ar.grad(sum_of_mixed_derivatives, argnums=(0, 1))(x, y)
    assert by_x == pytest.approx([6 * y[0] ** 2, 0.0])
    assert by_y == pytest.approx([12 * x[0] * y[0], 2.0])


def test_the_inner_gradient_of_an_object_is_refused():
    items = njit(lambda d: d[1] * d[1])

    @njit
    def of_a_dictionary(x):
        d, d_bar = Dict.empty(types.int64, types.float64), Dict.empty(types.int64, types.float64)
        d[1], d_bar[1] = x, 0.0
        autodiff(Reverse, items, Duplicated(d, d_bar))
        return d_bar[1]

    words = r"(?s)gradient with respect to d: .*arguments of their own"
    with pytest.raises(ar.NotYetSupported, match=words):
        ar.grad(of_a_dictionary)(0.5)
