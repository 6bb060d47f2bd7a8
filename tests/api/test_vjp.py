"""`vjp` and Jacobians: one tape, any number of reverse sweeps."""

from collections import namedtuple

import numpy as np
import pytest
from numba import float64, njit
from numba.experimental import jitclass

import activerules as ar
from activerules.testing.numeric import directional_derivative, inner, rand_tangent

RNG = np.random.default_rng(11)
VECTOR = np.linspace(0.5, 1.4, 5)
MATRIX = np.array([[2.0, 0.3], [0.1, 1.5]])


@njit
def chain(x, a):
    """Buffers change places: shadow pointers are on the tape."""
    y = x.copy()
    z = np.empty_like(x)
    k = 0
    while k < 4 and y[0] < 50.0:
        for i in range(len(x)):
            z[i] = np.sin(a * y[i]) + y[i - 1] * x[i]
        y, z = z, y
        k += 1
    return y


@njit
def weighted_solution(m, b):
    return np.linalg.solve(m, b * b).sum(), np.linalg.solve(m, b)


@njit
def same_memory_twice(x, a):
    x *= a
    return x, x[1:]


@njit
def counted(x, n, name):
    return x * n, n


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (chain, (VECTOR, 1.2)),
        (weighted_solution, (MATRIX, VECTOR[:2])),
        (same_memory_twice, (VECTOR, 1.2)),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_a_pullback_runs_any_number_of_times(f, args):
    primals = tuple(x.copy() if isinstance(x, np.ndarray) else x for x in args)
    out, pullback = ar.vjp(f, *primals)
    template = tuple(x.copy() if isinstance(x, np.ndarray) else x for x in _tuple(out))
    for array in (*primals, *_tuple(out)):
        if isinstance(array, np.ndarray):
            array[...] = 1e6  # what happens to them since does not matter
    for _ in range(3):
        cotangent = rand_tangent(template, RNG)
        found = pullback(cotangent if isinstance(out, tuple) else cotangent[0])
        for k, x in enumerate(args):
            tangents = [None] * len(args)
            tangents[k] = rand_tangent(x, RNG)

            def phi(*moved, cotangent=cotangent):
                return inner(cotangent, _tuple(f.py_func(*moved)))

            expected, error = directional_derivative(phi, args, tuple(tangents))
            assert inner(found[k], tangents[k]) == pytest.approx(expected, abs=1e-7 + 10 * error)


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_arguments_without_a_derivative_give_none():
    out, pullback = ar.vjp(counted, VECTOR, 3, None)
    np.testing.assert_array_equal(out[0], 3.0 * VECTOR)
    (x_bar, n_bar, name_bar) = pullback((VECTOR, None))
    np.testing.assert_array_equal(x_bar, 3.0 * VECTOR)
    assert (n_bar, name_bar) == (None, None)


@njit
def inside(x):
    out, pullback = ar.vjp(chain, x, 1.2)
    first = pullback(np.ones_like(out))
    second = pullback(2.0 * np.ones_like(out))
    return out, first, second


def test_inside_njit_as_outside(unfreed):
    out, first, second = inside(VECTOR)
    again, pullback = ar.vjp(chain, VECTOR, 1.2)
    np.testing.assert_array_equal(out, again)
    for found, scale in ((first, 1.0), (second, 2.0)):
        x_bar, a_bar = pullback(np.full(5, scale))
        np.testing.assert_array_equal(found[0], x_bar)
        assert found[1] == a_bar
    assert unfreed(lambda: inside(VECTOR)) == 0


def uses(times):
    def action():
        _, pullback = ar.vjp(weighted_solution, MATRIX, VECTOR[:2])
        for _ in range(times):
            pullback((1.0, VECTOR[:2]))

    return action


@pytest.mark.parametrize("times", [0, 2])
def test_nothing_is_leaked(times, unfreed):
    assert unfreed(uses(times)) == 0


def test_cotangents_that_do_not_fit_change_nothing():
    _, pullback = ar.vjp(chain, VECTOR, 1.2)
    with pytest.raises(ar.ShadowMismatch, match=r"has the shape \(4,\), and its value has \(5,\)"):
        pullback(np.ones(4))
    for wrong in (1.0, np.ones((5, 1)), np.ones(5) * 1j, (np.ones(5),)):
        with pytest.raises(ar.ActivityError, match="the cotangent of a result"):
            pullback(wrong)
    np.testing.assert_array_equal(pullback(np.ones(5))[0], inside(VECTOR)[1][0])


@njit
def index_of_largest(x):
    return x.argmax()


def test_a_result_without_a_derivative_is_refused():
    for function in (index_of_largest, lambda x: np.argsort(x), lambda x: (x > 1.0, "a")):
        with pytest.raises(ar.ActivityError, match="has no derivative"):
            ar.vjp(function, VECTOR)


def test_an_annotation_as_a_primal_is_refused():
    with pytest.raises(ar.ActivityError, match=r"`a` is Const\[float64\], an annotation"):
        ar.vjp(chain, VECTOR, ar.Const(1.2))
    for made in (ar.grad, ar.jacrev):
        with pytest.raises(ar.ActivityError, match=r"`a` is Const\[float64\], an annotation"):
            made(chain)(VECTOR, ar.Const(1.2))


# --- a rule whose reverse fails ---


@njit
def fragile(x):
    return x * x


@ar.augmented_primal(fragile)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(x.val * x.val, None, x.val)


@ar.reverse(fragile)
def _(config, dret: ar.Active, tape, x: ar.Active):
    if dret.val > 100.0:
        raise ValueError("too much")
    return 2.0 * tape * dret.val


@njit
def uses_fragile(x):
    return np.sin(x) * fragile(x[0])


def test_a_pullback_whose_run_failed_says_so(unfreed):
    def action():
        _, pullback = ar.vjp(uses_fragile, VECTOR)
        pullback(np.ones(5))
        with pytest.raises(ValueError, match="too much"):
            pullback(np.full(5, 1e3))
        with pytest.raises(ar.TapeError, match="its last run failed"):
            pullback(np.ones(5))

    assert unfreed(action) == 0


# --- Jacobians ---


@njit
def table(x, a):
    return np.sin(a * x.reshape((2, 1)) * x) + x[0]


@njit
def norm(x, a):
    return a * np.sqrt((x * x).sum())


@njit
def powers(x, a):
    return np.array([a, a * a, a * x[0]])


def jacobian_fd(f, args, k):
    """Column by column."""
    if not isinstance(args[k], np.ndarray):
        tangents = [None] * len(args)
        tangents[k] = 1.0
        return directional_derivative(f, args, tuple(tangents))[0]
    columns = []
    for index in np.ndindex(args[k].shape):
        tangents = [None] * len(args)
        tangents[k] = np.zeros_like(args[k])
        tangents[k][index] = 1.0
        columns.append(directional_derivative(f, args, tuple(tangents))[0])
    shape = np.shape(columns[0]) + args[k].shape
    return np.stack(columns, axis=-1).reshape(shape)


@pytest.mark.parametrize("f", [table, norm, powers])
def test_jacobians(f):
    args = (VECTOR[:2].copy(), 1.2)
    by_x, by_a = ar.jacrev(f, (0, 1))(*args)
    np.testing.assert_allclose(by_x, jacobian_fd(f.py_func, args, 0), atol=1e-7)
    np.testing.assert_allclose(by_a, jacobian_fd(f.py_func, args, 1), atol=1e-7)
    assert np.shape(by_x) == (*np.shape(f(*args)), 2)


@njit
def tall(x, n):
    x *= x
    return np.sin(np.arange(float(n)) * x.sum()) + x[0]


@pytest.mark.parametrize("n", [1, 9])  # fewer sweeps backwards, fewer forwards
def test_the_mode_follows_the_sizes_and_arguments_stay_as_they_were(n):
    x = VECTOR.copy()
    expected = jacobian_fd(tall.py_func, (VECTOR, n), 0)
    for mode in ("auto", "reverse", "forward"):
        np.testing.assert_allclose(ar.jacobian(tall, mode=mode)(x, n), expected, atol=1e-7)
        np.testing.assert_array_equal(x, VECTOR)


def _not_compiled(*_args, **_kwargs):
    raise AssertionError("the mode that the sizes do not ask for is compiled")


@pytest.mark.parametrize(
    ("n", "other"), [(1, "jacobian_forward.compiled_forward"), (30, "jacobian_by_size.sweeps_of")]
)
def test_a_call_from_python_compiles_one_mode(n, other, monkeypatch):
    x = VECTOR.copy()
    function = njit(lambda x: tall(x, n))
    expected = ar.jacrev(tall)(x, n)
    monkeypatch.setattr(f"activerules.api.{other}", _not_compiled)
    for _ in range(2):
        np.testing.assert_allclose(ar.jacobian(function)(x), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(x, VECTOR)


@njit
def seed_in_numba(n):
    np.random.seed(n)


@njit
def with_noise(x, n):
    return np.arange(float(n)) * x.sum() * np.random.random()


def test_a_function_with_a_state_is_not_run_to_learn_sizes():
    expected = []
    for make in (ar.jacrev, ar.jacobian):
        seed_in_numba(7)
        expected.append(make(with_noise)(VECTOR, 2))
    np.testing.assert_allclose(*expected, rtol=1e-14)
    assert ar.jacobian(with_noise)(VECTOR, 30).shape == (30, VECTOR.size)  # now by forward mode


TABLE_JACOBIAN = ar.jacobian(table, argnums=-1)


@njit
def jacobian_inside(x, a):
    return TABLE_JACOBIAN(x, a)


def test_a_jacobian_inside_njit(unfreed):
    args = (VECTOR[:2].copy(), 1.2)
    np.testing.assert_array_equal(jacobian_inside(*args), ar.jacrev(table, 1)(*args))
    assert unfreed(lambda: jacobian_inside(*args)) == 0


def test_an_empty_result_and_an_empty_argument():
    assert ar.jacrev(table.py_func)(VECTOR[:2], 1.0).shape == (2, 2, 2)
    doubled = ar.jacrev(lambda x: 2.0 * x)
    assert doubled(np.empty(0)).shape == (0, 0)


def test_an_argument_that_python_cannot_be_given_back_is_refused():
    with pytest.raises(ar.NotYetSupported, match=r"`part` is slice<.*a pullback cannot keep"):
        ar.vjp(lambda x, part: (x[part] ** 2).sum(), np.arange(4.0), slice(1, 3))


def test_a_list_as_result_is_refused_with_what_to_write_instead():
    def squares(x):
        return [v * v for v in x]

    with pytest.raises(ar.NotYetSupported, match="returns a number made of the result"):
        ar.vjp(squares, VECTOR)


def test_jacobians_of_other_results_are_refused():
    with pytest.raises(ar.ActivityError, match="`n` is int64"):
        ar.jacrev(counted, 1)(VECTOR, 3, None)
    with pytest.raises(ar.UnknownOption, match="sideways"):
        ar.jacobian(table, mode="sideways")


def test_grad_of_an_array_names_jacobian():
    with pytest.raises(ar.NotAFloatReturn, match="jacobian"):
        ar.grad(table)(VECTOR[:2], 1.2)


Spring = namedtuple("Spring", ["stiffness", "rest"])


@njit
def forces(spring, ends):
    stretch = ends[0][0] - ends[0][1] - spring.rest[0] * ends[1]
    return spring.stiffness * stretch, stretch * spring.rest


def test_arguments_that_are_tuples_with_arrays(unfreed):
    """With s the stretch: ē = k f̄ + <r, r̄ᵒ> is its cotangent, r̄ᵒ that of s r."""
    spring, x = Spring(2.0, np.array([0.3, 0.7])), np.array([1.5, 0.2])
    out, pullback = ar.vjp(forces, spring, (x, 3))
    stretch = 1.5 - 0.2 - 0.9
    np.testing.assert_allclose(out[1], stretch * spring.rest)
    cotangent = 0.5, np.array([2.0, -1.0])
    by_stretch = 2.0 * 0.5 + spring.rest @ cotangent[1]
    for _ in range(2):
        by_spring, (by_x, by_count) = pullback(cotangent)
        assert by_spring.stiffness == pytest.approx(stretch * 0.5)
        expected = stretch * cotangent[1] - np.array([3.0 * by_stretch, 0.0])
        np.testing.assert_allclose(by_spring.rest, expected)
        np.testing.assert_allclose(by_x, [by_stretch, -by_stretch])
        assert by_count is None
    assert unfreed(lambda: ar.vjp(forces, spring, (x, 3))[1](cotangent)) == 0


@njit
def spiral(x, a):
    """A complex result of real numbers."""
    y = np.empty(2, np.complex128)
    y[0], y[1] = x[0] * x[1] * a + 1j * x[0] ** 2, np.exp(1j * x[1])
    return y


@njit
def moduli(z, w):
    """A real result of complex numbers."""
    y = np.empty(2)
    y[0], y[1] = abs(z[0]) ** 2 * w.real, (z[0] * z[1]).imag + w.imag
    return y


def test_jacobians_of_complex_results():
    """∂(u + iv)/∂x = u_x + i v_x, in reverse mode."""
    x, a = np.array([0.4, 1.1]), 0.7
    by_x, by_a = ar.jacrev(spiral, (0, 1))(x, a)
    first = [x[1] * a + 2j * x[0], x[0] * a]
    np.testing.assert_allclose(by_x, [first, [0.0, 1j * np.exp(1j * x[1])]], rtol=1e-14)
    np.testing.assert_allclose(by_a, [x[0] * x[1], 0.0])


def test_jacobians_with_respect_to_complex_numbers():
    """∂/∂x + i ∂/∂y, row by row the gradient of one entry."""
    z, w = np.array([1.0 + 2.0j, 0.5 - 1.0j]), 2.0 + 3.0j
    by_z, by_w = ar.jacobian(moduli, (0, 1))(z, w)
    (a, b), (c, d) = (z[0].real, z[0].imag), (z[1].real, z[1].imag)
    rows = [[4.0 * z[0], 0.0], [d + 1j * c, b + 1j * a]]
    np.testing.assert_allclose(by_z, rows, rtol=1e-14)
    np.testing.assert_allclose(by_w, [a * a + b * b, 1j], rtol=1e-14)
    assert by_z.dtype == by_w.dtype == np.complex128
    with pytest.raises(ar.ActivityError, match="four real parts"):
        ar.jacobian(njit(lambda z: z * z))(z)


def test_entries_that_count_need_no_cotangent():
    @njit
    def counted(x, n):
        return x[:n] * x[:n], np.arange(n), (n, x > 0.0), x.sum()

    x, part_bar = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0])
    out, pullback = ar.vjp(counted, x, 2)
    expected = 3.0 + np.array([1.0, -4.0, 0.0])
    for counts_bar, mixed_bar in ((None, (None, None)), (None, (2, None)), out[1:3]):
        x_bar, _ = pullback((part_bar, counts_bar, mixed_bar, 3.0))
        np.testing.assert_array_equal(x_bar, expected)
    with pytest.raises(ar.ActivityError, match="of type float64 is None"):
        pullback((part_bar, None, (None, None), None))

    @njit
    def inside(x):
        out, pullback = ar.vjp(counted, x, 2)
        return pullback((out[0], None, (None, None), 2.0))[0].sum()

    np.testing.assert_allclose(ar.grad(inside)(x), [6.0, 24.0, 0.0])


def test_strings_in_a_result_have_no_derivative():
    @njit
    def named(x):
        return "squares", x * x, "of " + str(len(x))

    x, x_dot = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    out, pullback = ar.vjp(named, x)
    assert out[::2] == ("squares", "of 2")
    np.testing.assert_array_equal(pullback((None, x_dot, None))[0], [1.0, -4.0])
    assert ar.jvp(named, (x,), (x_dot,))[1][::2] == (None, None)
    np.testing.assert_array_equal(ar.jacrev(named)(x)[1], [[2.0, 0.0], [0.0, 4.0]])


TABLE = np.array([1.0, 2.0])
TABLE.flags.writeable = False


def test_constants_of_the_program_as_results_are_refused():
    for function in (lambda x: (x, TABLE), lambda x: (x, "low" if x[0] < 1.0 else "high")):
        with pytest.raises(ar.MixedActivity, match=r"constants of the program[\s\S]*\.copy\(\)"):
            ar.jvp(function, (VECTOR,), (VECTOR,))
    _, tangents = ar.jvp(lambda x: (x, TABLE.copy()), (VECTOR,), (VECTOR,))
    assert not tangents[1].any()


@jitclass([("items", float64[:])])
class Held:
    """An object that does not outlive the call, and whose memory LLVM clears in one."""

    def __init__(self, items):
        self.items = items


@njit
def grow(held, x):
    held.items[:] = held.items * x
    return np.sum(held.items)


grown = ar.checkpoint(grow)


@njit
def of_an_object(x):
    """3 x + 2 x²"""
    held = Held(np.array([1.0, 2.0, x]))
    return grown(held, x) + held.items[2]


def test_a_second_pullback_call_through_an_object_made_inside():
    out, pullback = ar.vjp(of_an_object, 2.0)
    assert out == 14.0
    assert [pullback(1.0), pullback(-2.0), pullback(1.0)] == [(11.0,), (-22.0,), (11.0,)]


@pytest.mark.filterwarnings("ignore::numba.NumbaPendingDeprecationWarning")
def test_values_with_floats_but_no_shadow_are_refused_as_by_grad():
    """`None` in their place would pass for a derivative of zero."""

    @njit
    def line(numbers, x):
        return numbers[0] * x + numbers[1]

    @njit
    def square(x):
        return 1.0 if x is None else x * x

    @njit
    def of_optional(x, given):
        y = x if given else None
        return ar.vjp(square, y)[1](1.0)

    for refused in (lambda: ar.vjp(line, [2.0, 3.0], 4.0), lambda: ar.grad(line)([2.0, 3.0], 4.0)):
        with pytest.raises(ar.NotYetSupported, match=r"numba\.typed\.List\(numbers\)"):
            refused()
    with pytest.raises(ar.NotYetSupported, match=r"`x` may be None: it is float64 \| None"):
        of_optional(3.0, True)
    with pytest.raises(ar.NotYetSupported, match=r"set\[float64\]") as caught:
        ar.vjp(line, {2.0, 3.0}, 4.0)
    assert caught.value.instead[0] == "an array, or a tuple of arrays"  # there is no typed set
    _, pullback = ar.vjp(line, [2, 3], 4.0)  # integers have no derivative
    assert pullback(1.0) == (None, 2.0)
