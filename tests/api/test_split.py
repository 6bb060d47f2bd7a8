"""Split mode: the augmented primal and the reverse as two calls, with a tape in between.

The judge is one identity: with random cotangents of the result, and of what the arrays hold at the
end (the shadows at the start), what the shadows hold after the reverse and what it returns is the
gradient of the sum of these pairings, by finite differences.
"""

import threading

import numpy as np
import pytest
from numba import njit
from numba.core.runtime import rtsys

import activerules as ar
from activerules.testing.numeric import copied, directional_derivative, inner, rand_tangent

RNG = np.random.default_rng(3)


def check(f, *args, result=ar.Duplicated, between=None):
    """Both halves of `f` against finite differences; `between` may write into what is passed on."""
    activities = [ar.Duplicated if isinstance(x, np.ndarray) else ar.Active for x in args]
    augmented, reverse = ar.autodiff_thunk(ar.ReverseSplitWithPrimal, f, result, *activities)
    copies = [copied(x) for x in args]
    start = [rand_tangent(x, RNG) for x in args]
    annotated = [
        ar.Duplicated(x, dx.copy()) if kind is ar.Duplicated else ar.Active(x)
        for kind, x, dx in zip(activities, copies, start, strict=True)
    ]
    tape, primal, shadow = augmented(*annotated)
    np.testing.assert_array_equal(_flat(primal), _flat(f(*map(copied, args))))
    cotangent = rand_tangent(primal, RNG)
    seeds = [] if result is ar.Duplicated else [_seeded(shadow, cotangent)]
    if result is ar.Duplicated:
        _seeded(shadow, cotangent)
    if between is not None:
        between(primal, *copies)
    derivatives = reverse(*annotated, *seeds, tape)

    def phi(*moved):
        value = inner(cotangent, f.py_func(*moved))
        at_the_end = zip(activities, start, moved, strict=True)
        return value + sum(inner(c, x) for kind, c, x in at_the_end if kind is ar.Duplicated)

    for k, x in enumerate(args):
        tangents = [None] * len(args)
        tangents[k] = rand_tangent(x, RNG)
        found = derivatives[k]
        if activities[k] is ar.Duplicated:
            assert found is None
            found = annotated[k].dval
        expected, error = directional_derivative(phi, args, tuple(tangents))
        assert inner(found, tangents[k]) == pytest.approx(expected, abs=1e-7 + 10 * error)


def _seeded(shadow, cotangent):
    """The cotangent in the shadow of the result, and what to pass as `dret`."""
    if isinstance(shadow, tuple):
        return tuple(_seeded(s, c) for s, c in zip(shadow, cotangent, strict=True))
    if isinstance(shadow, np.ndarray):
        shadow += cotangent
        return shadow
    return cotangent


def _flat(value):
    parts = value if isinstance(value, tuple) else (value,)
    return np.concatenate([np.ravel(part) for part in parts])


# --- what may be returned ---


@njit
def new_memory(x, a):
    return np.exp(a * x) / (1.0 + x)


@njit
def made_in_a_loop(x, a):
    y = np.zeros(len(x))
    s = a
    for i in range(len(x)):
        s = np.sin(s * x[i])
        y[i] = s
    return y


@njit
def in_place(x, a):
    x *= x + a
    return x


@njit
def view(x, a):
    x[0] *= a
    return x[1::2] if a > 100.0 else x[::-2]


@njit
def two_dimensions(x, a):
    return np.outer(x, a * x).T


@njit
def solved(a, b):
    x = np.linalg.solve(a, b)
    return x * x


@njit
def rule_result(a, b):
    return np.linalg.solve(a, b)


@njit
def constant_array(x, a):
    return np.arange(3.0)


VECTOR = np.linspace(0.5, 1.4, 5)
MATRIX = np.array([[2.0, 0.3], [0.1, 1.5]])


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (new_memory, (VECTOR, 1.2)),
        (made_in_a_loop, (VECTOR, 1.2)),
        (in_place, (VECTOR, 1.2)),
        (view, (VECTOR, 1.2)),
        (two_dimensions, (VECTOR, 1.2)),
        (solved, (MATRIX, VECTOR[:2])),
        (rule_result, (MATRIX, VECTOR[:2])),
        (constant_array, (VECTOR, 1.2)),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_returned_arrays(f, args):
    check(f, *args)


@njit
def both(x, a):
    y = a * x
    return y.sum() * y[0], y, 3, (a * a, x[1:])


@njit
def pair(x, a):
    return a * x[0], np.sin(a)


def test_tuples_with_floats_and_arrays():
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, both, ar.MixedDuplicated, ar.Duplicated, ar.Active
    )
    x, dx, a = VECTOR.copy(), np.zeros(5), 1.2
    tape, primal, shadow = augmented(ar.Duplicated(x, dx), ar.Active(a))
    assert primal[2] == 3
    assert shadow[0] == 0.0
    shadow[1][:] = 2.0
    shadow[3][1][:] = 5.0  # a view of dx
    dret = (1.0, shadow[1], 3, (7.0, shadow[3][1]))
    _, da = reverse(ar.Duplicated(x, dx), ar.Active(a), dret, tape)
    tail = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    product = a * a * (x[0] + np.array([x.sum(), 0.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(dx, product + 2.0 * a + 5.0 * tail)
    assert da == pytest.approx(2.0 * a * x.sum() * x[0] + 2.0 * x.sum() + 14.0 * a)


def test_an_active_tuple_takes_a_cotangent_of_its_structure():
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitNoPrimal, pair, ar.Active, ar.Duplicated, ar.Active
    )
    x, dx = VECTOR.copy(), np.ones(5)
    tape, primal, shadow = augmented(ar.Duplicated(x, dx), ar.Active(2.0))
    assert primal is None
    assert shadow is None
    _, da = reverse(ar.Duplicated(x, dx), ar.Active(2.0), (3.0, 4.0), tape)
    assert da == pytest.approx(3.0 * x[0] + 4.0 * np.cos(2.0))
    np.testing.assert_allclose(dx, [7.0, 1.0, 1.0, 1.0, 1.0])


@njit
def fills(x, y):
    for i in range(len(x)):
        y[i] = x[i] * x[i]


def test_a_function_that_returns_nothing():
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, fills, ar.Const, ar.Duplicated, ar.Duplicated
    )
    x, dx, y, dy = VECTOR.copy(), np.zeros(5), np.zeros(5), np.zeros(5)
    arguments = ar.Duplicated(x, dx), ar.Duplicated(y, dy)
    tape, primal, shadow = augmented(*arguments)
    assert (primal, shadow) == (None, None)
    dy[:] = 3.0
    assert reverse(*arguments, tape) == (None, None)
    np.testing.assert_allclose(dx, 6.0 * x)
    np.testing.assert_array_equal(dy, 0.0)


@njit
def chooses(x, c, far):
    return c if far else x * c


@pytest.mark.parametrize("far", [True, False])
def test_a_constant_argument_that_is_returned_has_a_shadow_of_zeros(far):
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, chooses, ar.Duplicated, ar.Duplicated, ar.Const, ar.Const
    )
    x, dx, c = VECTOR.copy(), np.zeros(5), VECTOR[::-1].copy()
    tape, _, shadow = augmented(ar.Duplicated(x, dx), c, far)
    np.testing.assert_array_equal(shadow, 0.0)
    shadow += 1.0
    reverse(ar.Duplicated(x, dx), c, far, tape)
    np.testing.assert_allclose(dx, 0.0 if far else c)


@njit
def swapped(x, y):
    for i in range(len(x)):
        x[i], y[i] = y[i] * x[i], x[i]
    return x


def test_arguments_that_overlap():
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, swapped, ar.Duplicated, ar.Duplicated, ar.Duplicated
    )

    def phi(whole):
        return inner(np.arange(4.0), swapped.py_func(whole[:4], whole[1:]).copy())

    whole, shadow = np.linspace(0.5, 1.4, 5), np.zeros(5)
    expected = [directional_derivative(phi, (whole.copy(),), (unit,))[0] for unit in np.eye(5)]
    arguments = (ar.Duplicated(whole[:4], shadow[:4]), ar.Duplicated(whole[1:], shadow[1:]))
    tape, _, result_shadow = augmented(*arguments)
    result_shadow += np.arange(4.0)
    reverse(*arguments, tape)
    np.testing.assert_allclose(shadow, expected, atol=1e-8)


# --- between the halves ---


def overwrite(*arrays):
    for array in arrays:
        if isinstance(array, np.ndarray):
            array[:] = 1e6


@pytest.mark.parametrize("f", [new_memory, made_in_a_loop, two_dimensions])
def test_memory_may_be_written_in_between(f):
    check(f, VECTOR, 1.2, between=overwrite)


@pytest.mark.parametrize("f", [solved, rule_result])
def test_memory_of_a_rule_may_be_written_in_between(f):
    check(f, MATRIX, VECTOR[:2], between=overwrite)


@njit
def square(x):
    return x * x


HALVES = ar.autodiff_thunk(ar.ReverseSplitWithPrimal, square, ar.Active, ar.Active)
ARRAYS = ar.autodiff_thunk(
    ar.ReverseSplitWithPrimal, made_in_a_loop, ar.Duplicated, ar.Duplicated, ar.Active
)


def test_several_tapes_live_at_once_in_any_order():
    augmented, reverse = HALVES
    tapes = [augmented(ar.Active(float(k)))[0] for k in range(4)]
    for k in (2, 0, 3, 1):
        assert reverse(ar.Active(float(k)), 1.0, tapes[k]) == (2.0 * k,)


@njit
def product_of_tapes(x):
    augmented, reverse = ar.autodiff_thunk(ar.ReverseSplitNoPrimal, square, ar.Active, ar.Active)
    tapes = [augmented(ar.Active(v))[0] for v in x]
    pair = (tapes[0], tapes[1])
    result = np.zeros_like(x)
    for i in range(len(x) - 1, 1, -1):
        result[i] = reverse(ar.Active(x[i]), 1.0, tapes[i])[0]
    result[1] = reverse(ar.Active(x[1]), 1.0, pair[1])[0]
    return result


@njit
def with_global_halves(x, dx):
    tape, y, dy = ARRAYS[0](ar.Duplicated(x, dx), ar.Active(1.2))
    dy += 1.0
    return y, ARRAYS[1](ar.Duplicated(x, dx), ar.Active(1.2), tape)[1]


def test_inside_njit(unfreed):
    np.testing.assert_allclose(product_of_tapes(VECTOR)[1:], 2.0 * VECTOR[1:])
    assert unfreed(lambda: product_of_tapes(VECTOR)) == 0


def test_halves_made_outside_are_callable_inside(unfreed):
    dx, again = np.zeros(5), np.zeros(5)
    y, da = with_global_halves(VECTOR, dx)
    arguments = ar.Duplicated(VECTOR, again), ar.Active(1.2)
    tape, primal, shadow = ARRAYS[0](*arguments)
    shadow += 1.0
    assert ARRAYS[1](*arguments, tape)[1] == da
    np.testing.assert_array_equal(y, primal)
    np.testing.assert_array_equal(dx, again)
    assert unfreed(lambda: with_global_halves(VECTOR, dx)) == 0


def test_threads():
    augmented, reverse = ARRAYS
    expected = np.zeros(5)
    run_both(augmented, reverse, expected)
    found = [np.zeros(5) for _ in range(4)]

    def work(dx):
        for _ in range(20):
            dx[:] = 0.0
            run_both(augmented, reverse, dx)

    threads = [threading.Thread(target=work, args=(dx,)) for dx in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for dx in found:
        np.testing.assert_array_equal(dx, expected)


def run_both(augmented, reverse, dx):
    arguments = ar.Duplicated(VECTOR, dx), ar.Active(1.2)
    tape, _, shadow = augmented(*arguments)
    shadow += 1.0
    reverse(*arguments, tape)


# --- nothing is leaked ---


@njit
def late_failure(x):
    y = np.sin(x)
    for i in range(len(y)):
        y = y * x[i]
    if x[0] < 0.0:
        raise ValueError("negative")
    return y


LATE = ar.autodiff_thunk(ar.ReverseSplitWithPrimal, late_failure, ar.Duplicated, ar.Duplicated)
SOLVED = ar.autodiff_thunk(
    ar.ReverseSplitWithPrimal, solved, ar.Duplicated, ar.Duplicated, ar.Duplicated
)


def used():
    argument = ar.Duplicated(VECTOR, np.zeros(5))
    tape, _, shadow = LATE[0](argument)
    shadow += 1.0
    LATE[1](argument, tape)


def dropped():
    LATE[0](ar.Duplicated(VECTOR, np.zeros(5)))


def failed():
    with pytest.raises(ValueError, match="negative"):
        LATE[0](ar.Duplicated(-VECTOR, np.zeros(5)))


def refused():
    argument = ar.Duplicated(VECTOR, np.zeros(5))
    tape, _, _ = LATE[0](argument)
    with pytest.raises(ar.TapeError):
        LATE[1](ar.Duplicated(VECTOR, np.zeros(5)), tape)


def dropped_with_a_rule():
    SOLVED[0](ar.Duplicated(MATRIX, 0.0 * MATRIX), ar.Duplicated(VECTOR[:2], np.zeros(2)))


@pytest.mark.parametrize("action", [used, dropped, failed, refused, dropped_with_a_rule])
def test_forms_s1_s2_nothing_is_leaked(action, unfreed):
    assert unfreed(action) == 0


# --- misuse ---


def test_forms_s3_a_tape_is_used_once():
    augmented, reverse = HALVES
    tape, _, _ = augmented(ar.Active(3.0))
    assert reverse(ar.Active(3.0), 2.0, tape) == (12.0,)
    with pytest.raises(ar.TapeError, match="a second time"):
        reverse(ar.Active(3.0), 2.0, tape)


def test_forms_s3_a_tape_is_used_with_its_arguments_and_survives_a_refusal():
    augmented, reverse = ARRAYS
    x, dx = VECTOR.copy(), np.zeros(5)
    tape, _, _ = augmented(ar.Duplicated(x, dx), ar.Active(1.2))
    wrong = [
        (ar.Duplicated(x.copy(), dx), ar.Active(1.2)),
        (ar.Duplicated(x, dx.copy()), ar.Active(1.2)),
        (ar.Duplicated(x[:4], dx[:4]), ar.Active(1.2)),
        (ar.Duplicated(x, dx), ar.Active(1.3)),
    ]
    for arguments in wrong:
        with pytest.raises(ar.TapeError, match="made from another"):
            reverse(*arguments, tape)
    np.testing.assert_array_equal(dx, 0.0)
    reverse(ar.Duplicated(x, dx), ar.Active(1.2), tape)
    after = dx.copy()
    with pytest.raises(ar.TapeError, match="a second time"):
        reverse(ar.Duplicated(x, dx), ar.Active(1.2), tape)
    np.testing.assert_array_equal(dx, after)


def test_forms_s3_a_tape_is_emptied_by_its_reverse():
    def alive():
        stats = rtsys.get_allocation_stats()
        return stats.alloc - stats.free

    arguments = (
        ar.Duplicated(MATRIX, np.zeros_like(MATRIX)),
        ar.Duplicated(VECTOR[:2], np.zeros(2)),
    )
    dropped_with_a_rule()
    before = alive()
    tape, x, dx = SOLVED[0](*arguments)
    recorded = alive() - before
    SOLVED[1](*arguments, tape)
    assert alive() - before < recorded
    del x, dx
    assert alive() - before == 1  # the block of the tape, which says that it was used
    del tape
    assert alive() == before


def test_a_tape_belongs_to_its_derivative():
    tape, _, _ = ARRAYS[0](ar.Duplicated(VECTOR, np.zeros(5)), ar.Active(1.2))
    with pytest.raises(ar.TapeError, match="made_in_a_loop"):
        HALVES[1](ar.Active(3.0), 1.0, tape)
    with pytest.raises(ar.TapeError, match="None was given to the reverse of square\n"):
        HALVES[1](ar.Active(3.0), 1.0, None)


def test_other_arrays_than_the_shadows_as_cotangent():
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, both, ar.MixedDuplicated, ar.Duplicated, ar.Active
    )
    arguments = ar.Duplicated(VECTOR, np.zeros(5)), ar.Active(1.2)
    tape, _, shadow = augmented(*arguments)
    with pytest.raises(ar.TapeError, match="arrays of a cotangent"):
        reverse(*arguments, (1.0, np.ones(5), 3, (7.0, shadow[3][1])), tape)
    reverse(*arguments, (1.0, shadow[1], 3, (7.0, shadow[3][1])), tape)


def test_activities_must_fit():
    with pytest.raises(ar.ActivityError, match="not a mode"):
        ar.autodiff_thunk(ar.Reverse, square, ar.Active, ar.Active)
    with pytest.raises(ar.ActivityError, match="not an activity"):
        ar.autodiff_thunk(ar.ReverseSplitNoPrimal, square, ar.Active, ar.Active(2.0))
    with pytest.raises(ar.ArityError):
        ar.autodiff_thunk(ar.ReverseSplitNoPrimal, square, ar.Active, ar.Active, ar.Active)
    with pytest.raises(ar.ArityError, match=r"reverse_square\(x, dret, tape\)"):
        HALVES[1](ar.Active(3.0))
    with pytest.raises(ar.ActivityError, match="made for Active"):
        HALVES[0](ar.Const(3.0))
    tape, _, _ = HALVES[0](ar.Active(3.0))
    with pytest.raises(ar.ActivityError, match="cotangent"):
        HALVES[1](ar.Active(3.0), VECTOR, tape)


@pytest.mark.parametrize(
    ("f", "asked", "better"),
    [
        (made_in_a_loop, ar.Active, "Duplicated"),
        (both, ar.Duplicated, "MixedDuplicated"),
        (pair, ar.Duplicated, "Active"),
    ],
)
def test_the_activity_of_the_return_must_fit(f, asked, better):
    augmented, _ = ar.autodiff_thunk(ar.ReverseSplitNoPrimal, f, asked, ar.Duplicated, ar.Active)
    with pytest.raises(ar.ActivityError, match=f"the return activity {better}"):
        augmented(ar.Duplicated(VECTOR, np.zeros(5)), ar.Active(1.0))


def test_autodiff_says_what_split_modes_are_for():
    with pytest.raises(ar.ActivityError, match="autodiff_thunk"):
        ar.autodiff(ar.ReverseSplitNoPrimal, square, ar.Active, ar.Active(1.0))


TABLE = np.arange(3.0)


@njit
def returns_a_global(x):
    return TABLE if x[0] > 0.0 else x


def test_a_global_array_cannot_be_returned_with_a_shadow():
    augmented, _ = ar.autodiff_thunk(
        ar.ReverseSplitNoPrimal, returns_a_global, ar.Duplicated, ar.Duplicated
    )
    with pytest.raises(ar.MixedActivity):
        augmented(ar.Duplicated(VECTOR, np.zeros(5)))
