"""`autodiff`, `grad` and `value_and_grad` from Python and `@njit`, through the whole pipeline."""

import array
import inspect
import math
import os
import pickle
import subprocess
import sys
import threading
import typing
import warnings
from pathlib import Path

import numpy as np
import pytest
from numba import njit, prange
from numba.core.errors import TypingError
from numba.core.runtime import _nrt_python, rtsys

import activerules as ar


def wave(x, frequency=2.0):
    return x * math.sin(frequency * x)


def wave_slope(x, frequency=2.0):
    return math.sin(frequency * x) + x * frequency * math.cos(frequency * x)


@njit
def energy(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    return total


@njit
def double_into(x, out):
    for i in range(x.shape[0]):
        out[i] = 2.0 * x[i]


@njit
def norm(point):
    return point[0] * point[0] + point[1] * point[1] * point[2]


@njit
def refuses_negative(x, values):
    total = 0.0
    for value in values:
        if value < 0.0:
            raise ValueError("negative")
        total += x * value
    return total


wave_gradient = ar.grad(wave)
energy_and_gradient = ar.value_and_grad(energy)


def test_a_gradient_keeps_the_signature():
    assert wave_gradient(1.5) == pytest.approx(wave_slope(1.5))
    assert wave_gradient(1.5, frequency=3.0) == pytest.approx(wave_slope(1.5, 3.0))
    assert wave_gradient.__name__ == "grad_wave"
    assert wave_gradient.__wrapped__ is wave


def annotated(x: float, k: int = 2) -> float:
    return k * x


@pytest.mark.parametrize(
    "made",
    [
        ar.grad(annotated),
        ar.value_and_grad(annotated),
        ar.jacobian(annotated, sparsity=np.ones((1, 1))),
    ],
)
def test_annotations_are_those_of_the_parameters(made):
    expected = {"x": float, "k": int}
    assert inspect.get_annotations(made) == expected
    assert typing.get_type_hints(made) == expected
    assert str(inspect.signature(made)) == "(x: float, k: int = 2)"


def described(x, k=2.0):
    """A line through zero."""
    return k * x


@pytest.mark.parametrize(
    ("made", "expected", "about"),
    [
        (
            ar.grad(described),
            "grad(described) with respect to argument 0",
            "gradient of `described` with respect to `x`.",
        ),
        (
            ar.value_and_grad(described, (0, 1), fastmath=True),
            "value_and_grad(described, fastmath=True) with respect to arguments (0, 1)",
            "value and the gradient of `described` with respect to `x`, `k`.",
        ),
        (
            ar.jacfwd(described, "k"),
            "jacfwd(described) with respect to argument 1",
            "Jacobian of `described` with respect to `k`",
        ),
        (
            ar.hessian(described),
            "hessian(described) with respect to argument 0",
            "Hessian of `described` with respect to `x`",
        ),
        (
            ar.hvp(described),
            "hvp(described) with respect to argument 0",
            "Hessian of `described` with respect to `x`",
        ),
    ],
)
def test_derivatives_say_what_they_are(made, expected, about):
    assert repr(made) == expected
    assert about in made.__doc__
    assert made.__doc__.endswith("A line through zero.")
    again = pickle.loads(pickle.dumps(made))
    assert (repr(again), again.__doc__, again.dispatcher) == (
        expected,
        made.__doc__,
        made.dispatcher,
    )


def typed(x: float, k: int = 2) -> float:
    return x**k


@pytest.mark.parametrize(
    ("made", "parameters"),
    [
        (ar.grad(typed), "(x: float, k: int = 2)"),
        (ar.hessian(typed, cache=True), "(x: float, k: int = 2)"),
        (ar.hvp(typed), "(x: float, v, k: int = 2)"),
        (ar.checkpoint(typed), "(x: float, k: int = 2) -> float"),
    ],
)
def test_derivatives_have_the_signature_of_the_function(made, parameters):
    assert str(inspect.signature(made)) == parameters
    assert inspect.unwrap(made) is typed
    assert made.__name__.endswith("typed")
    assert not hasattr(made, "_parameters")  # where iminuit looks before it reads the signature


def test_a_checkpointed_function_does_not_look_like_the_function():
    made = ar.checkpoint(typed)
    assert "typed.checkpointed at" in repr(made)
    assert made.__name__ == "typed"


def test_halves_say_what_they_are():
    halves = ar.autodiff_thunk(ar.ReverseSplitWithPrimal, typed, ar.Active, ar.Active, ar.Const)
    assert [str(inspect.signature(half)) for half in halves] == [
        "(x, k, /)",
        "(x, k, dret, tape, /)",
    ]
    for half in halves:
        assert half.__wrapped__ is typed
        assert "of `typed`; see `autodiff_thunk`" in half.__doc__
        assert pickle.loads(pickle.dumps(half)) is half


def test_modes_are_written_as_they_are_made():
    for mode in (ar.Reverse, ar.Forward.vector_math(), ar.Reverse.strong_zero().fast()):
        assert eval(repr(mode), dict(vars(ar))) == mode


def test_value_and_gradient():
    value, gradient = energy_and_gradient(np.array([1.0, 2.0]))
    assert value == 5.0
    assert gradient.tolist() == [2.0, 4.0]
    assert ar.value_and_grad(wave, (0,))(1.5)[1] == pytest.approx((wave_slope(1.5),))


def test_gradients_inside_njit():
    @njit
    def newton(x):
        _value, gradient = energy_and_gradient(x)
        return x - 0.5 * gradient + wave_gradient(1.5)

    np.testing.assert_allclose(newton(np.array([1.0, 2.0])), wave_slope(1.5))


def test_autodiff_inside_njit():
    scale = np.array([1.0, 2.0])

    @njit
    def caller(x, dx):
        (_nothing,), primal = ar.autodiff(ar.Reverse.with_primal(), energy, ar.Duplicated(x, dx))
        return primal

    shadow = np.ones(2)
    assert caller(scale, shadow) == 5.0
    assert shadow.tolist() == [3.0, 5.0]


def test_a_function_that_writes_its_result():
    x, dx = np.array([1.0, 2.0]), np.ones(2)
    out, dout = np.zeros(2), np.array([1.0, 10.0])
    arguments = ar.Duplicated(x, dx), ar.Duplicated(out, dout)
    for result in ((), (ar.Const,)):
        dx[:], dout[:] = 1.0, (1.0, 10.0)
        assert ar.autodiff(ar.Reverse, double_into, *result, *arguments) == (None, None)
        assert out.tolist() == [2.0, 4.0]
        assert dx.tolist() == [3.0, 21.0]
        assert dout.tolist() == [0.0, 0.0]


def test_the_derivative_of_a_tuple_has_its_structure():
    (gradient,) = ar.autodiff(ar.Reverse, norm, ar.Active((3.0, 2.0, 5)))
    assert gradient == (6.0, 20.0, None)
    assert ar.grad(norm)((3.0, 2.0, 5)) == (6.0, 20.0, None)


def test_the_functions_own_exception_leaves_shadows_alone():
    shadow = np.ones(2)
    bad = np.array([1.0, -1.0])
    with pytest.raises(ValueError, match="negative"):
        ar.autodiff(ar.Reverse, refuses_negative, ar.Active(2.0), ar.Duplicated(bad, shadow))
    assert shadow.tolist() == [1.0, 1.0]
    (derivative, _) = ar.autodiff(ar.Reverse, refuses_negative, ar.Active(2.0), np.ones(3))
    assert derivative == 3.0


def test_functions_numba_cannot_compile_are_not_compilable():
    def unknown(x):
        return undefined_name(x)  # noqa: F821

    with pytest.raises(ar.NotCompilable) as caught:
        ar.grad(unknown)(1.0)
    assert isinstance(caught.value.__cause__, TypingError)


def test_a_return_that_is_not_a_float():
    def returns_array(x):
        return 2.0 * x

    with pytest.raises(ar.NotAFloatReturn, match="jacobian"):
        ar.grad(returns_array)(np.ones(2))


@njit
def bare(x):
    return ar.autodiff(ar.Reverse, energy, x)


@pytest.mark.parametrize(
    ("run", "marked"),
    [
        (lambda: ar.autodiff(ar.Reverse, wave, 2.0), "Active(x)"),
        (lambda: ar.autodiff(ar.Reverse, energy, np.ones(3)), "Duplicated(x, make_zero(x))"),
        (lambda: ar.autodiff(ar.Forward, energy, np.ones(3)), "Duplicated(x, tangent)"),
        (lambda: bare(np.ones(3)), "Duplicated(x, make_zero(x))"),
    ],
)
def test_calls_without_a_marked_argument_are_refused(run, marked):
    with pytest.raises(ar.ActivityError, match="is marked, so that there is no deriv") as caught:
        run()
    assert f"Either  {marked}\n" in str(caught.value)


def test_const_annotations_alone_are_allowed():
    assert ar.autodiff(ar.ReverseWithPrimal, wave, ar.Const(2.0)) == ((None,), wave(2.0))


class Series:
    """What NumPy takes for an array, and Numba does not know."""

    def __array__(self, dtype=None, copy=None):
        return np.ones(3)


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        (memoryview(np.ones(3)), "np.asarray(x)"),
        (array.array("d", [1.0]), "np.asarray(x)"),
        (Series(), "np.asarray(x)"),
        (np.ones(3, np.longdouble), "x.astype(np.float64)"),
        (np.longdouble(1.0), "x.astype(np.float64)"),
        (np.array([1.0, 2], dtype=object), "x.astype(np.float64)"),
        (np.ma.array([1.0]), "x.filled(0.0)"),
    ],
)
def test_values_that_are_not_arrays_are_refused_with_what_to_write(given, instead):
    calls = [
        lambda: ar.grad(energy)(given),
        lambda: ar.jvp(energy, (given,), (given,)),
        lambda: ar.vjp(energy, given),
        lambda: ar.autodiff(ar.Reverse, energy, ar.Duplicated(given, given)),
    ]
    for call in calls:
        with pytest.raises(ar.ActivityError) as caught:
            call()
        assert instead in str(caught.value)


@njit
def imports_inside(x):
    import math

    return math.sin(x)


@njit
def writes_a_global(x):
    global WRITTEN
    WRITTEN = x
    return x


@pytest.mark.parametrize(
    ("f", "instead"),
    [(imports_inside, "import modules above the function"), (writes_a_global, "numba.njit(")],
)
def test_bytecode_numba_refuses_is_not_compilable(f, instead):
    with pytest.raises(ar.NotCompilable, match="Use of unsupported opcode") as caught:
        ar.grad(njit(lambda x: f(x)))(1.0)
    assert instead in str(caught.value)


def test_a_rule_registered_later_is_taken_up():
    @njit
    def inner(x):
        return 3.0 * x

    def outer(x):
        return inner(x) + x

    gradient = ar.grad(outer)
    assert gradient(1.0) == 4.0

    @ar.augmented_primal(inner)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(3.0 * x.val, None, None)

    @ar.reverse(inner)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 100.0 * dret.val

    assert gradient(1.0) == 101.0
    assert ar.autodiff(ar.Reverse, outer, ar.Active(1.0)) == (101.0,)


def test_a_forward_rule_registered_later_is_taken_up():
    @njit
    def inner(x):
        return 3.0 * x

    def outer(x):
        return inner(x) + x

    derivative = ar.jacfwd(outer)
    assert derivative(1.0) == 4.0
    assert ar.jvp(outer, (1.0,), (1.0,)) == (4.0, 4.0)

    @ar.forward(inner)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        return 3.0 * x.val, 100.0 * x.dval

    assert derivative(1.0) == 101.0
    assert ar.jvp(outer, (1.0,), (1.0,)) == (4.0, 101.0)


def test_ignored_derivatives():
    def stopped(x):
        return x * ar.ignore_derivatives(x)

    assert ar.value_and_grad(stopped)(3.0) == (9.0, 3.0)


def test_gradients_pickle():
    again = pickle.loads(pickle.dumps(wave_gradient))
    assert again(1.5) == wave_gradient(1.5)


def test_options_are_those_of_njit():
    assert ar.grad(wave, nogil=True)(1.5) == pytest.approx(wave_slope(1.5))
    with pytest.raises(TypeError, match=r"no option 'fastmaths'.*grad\(f\)\(x, fastmaths="):
        ar.grad(wave, fastmaths=True)


def test_flags_are_those_of_a_function_that_has_none():
    assert ar.grad(lambda x: 1.0 / x, error_model="numpy")(0.0) == -math.inf
    with pytest.raises(ZeroDivisionError):
        ar.grad(lambda x: 1.0 / x)(0.0)
    with pytest.raises(ZeroDivisionError):
        ar.grad(njit(error_model="python")(lambda x: 1.0 / x), error_model="numpy")(0.0)
    with pytest.raises(IndexError):
        ar.grad(lambda x: x[3], boundscheck=True)(np.ones(3))


def test_gradients_made_alike_share_what_is_compiled():
    first, again = ar.grad(wave), ar.grad(wave)
    assert first.dispatcher is again.dispatcher
    assert first.dispatcher is not ar.value_and_grad(wave).dispatcher
    assert first.dispatcher is not ar.grad(wave, error_model="numpy").dispatcher


CALLS_OF_WAVE = [
    lambda *x: ar.grad(wave)(*x),
    lambda *x: ar.jacobian(wave)(*x),
    lambda *x: ar.hessian(wave)(*x),
    lambda *x: ar.vjp(wave, *x),
    lambda *x: ar.jvp(wave, x, x),
    lambda *x: ar.autodiff(ar.Reverse, wave, *map(ar.Active, x)),
]


@pytest.mark.parametrize("call", CALLS_OF_WAVE)
def test_arguments_that_do_not_fit(call):
    with pytest.raises(ar.ArityError, match="wave"):
        call(1.0, 2.0, 3.0)
    with pytest.raises(ar.ActivityError, match="Numba has no type"):
        call(object())


def test_a_hessian_product_of_too_few_or_many_arguments():
    product = ar.hvp(lambda x, y: x * y)
    with pytest.raises(ar.ArityError, match="'y'"):
        product(1.0, 1.0)
    with pytest.raises(ar.ArityError, match="too many"):
        product(1.0, 1.0, 1.0, 1.0)


def test_threads_compile_and_call_at_once():
    gradient = ar.grad(lambda x: x * x * x, nogil=True)
    found = []
    threads = [threading.Thread(target=lambda: found.append(gradient(2.0))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12.0] * 4


CACHED_PROGRAM = """
import numpy as np
from numba import njit
import activerules as ar
from tests.compile_log import compiled

@njit(cache=True)
def energy(x):
    return (x * x).sum()

@njit(cache=True)
def with_first(x):
    return (x * x).sum(), x[0]

gradient = ar.grad(energy, cache=True)

# what is made of a cached function is cached
product, checked = ar.hvp(energy), ar.checkpoint(energy)

def scaled(by):
    return njit(lambda x: by * x * x)

# parameters in a dictionary: the class that stands for it is found in another process
by_keys = ar.grad(njit(cache=True)(lambda p: p["w"].sum() * p["b"]))

out, pullback = ar.vjp(energy, np.ones(2))

# two functions in one line, of different values
slopes = [ar.grad(scaled(by), cache=True) for by in (2.0, 3.0)]

@njit(cache=True)
def descend(x):
    dx = np.zeros_like(x)
    ar.autodiff(ar.Reverse, energy, ar.Duplicated(x, dx))
    return x - 0.25 * dx - gradient(x)

jacobian = ar.jacfwd(energy, cache=True)

print(descend(np.ones(2)), gradient(np.ones(2)))
print(jacobian(np.ones(2)))
print(pullback(2.0)[0], by_keys({"w": np.ones(2), "b": 2.0}))
print([slope(1.0) for slope in slopes], product(np.ones(2), np.ones(2)), checked(np.ones(2)))

x, dx = np.ones(2), np.zeros(2)
print(ar.jvp(with_first, (x,), (x,), has_aux=True), ar.vjp(with_first, x, has_aux=True)[0])
ar.autodiff(ar.Reverse, energy, ar.Duplicated(x, dx))
augmented, reverse = ar.autodiff_thunk(
    ar.ReverseSplitNoPrimal, energy, ar.Active, ar.Duplicated)
reverse(ar.Duplicated(x, dx), 2.0, augmented(ar.Duplicated(x, dx))[0])
print(dx, ar.autodiff(ar.Forward, energy, ar.Duplicated(x, x)))
print(*compiled)
"""


def test_derivatives_and_their_callers_are_cached_on_disk(tmp_path):
    (tmp_path / "program.py").write_text(CACHED_PROGRAM)
    command = [sys.executable, "-W", "error", "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    outputs = [
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [run.stderr for run in outputs] == ["", ""]
    first, second = (run.stdout.splitlines() for run in outputs)
    assert (
        first[:-1]
        == second[:-1]
        == [
            "[-1.5 -1.5] [2. 2.]",
            "[2. 2.]",
            "[4. 4.] {'b': 2.0, 'w': array([2., 2.])}",
            "[4.0, 6.0] [2. 2.] 2.0",
            "(2.0, 4.0, 1.0) 2.0",
            "[6. 6.] 4.0",
        ]
    )
    assert {"energy", "descend", "grad_energy", "entry"} <= set(first[-1].split())
    assert second[-1] == ""


def test_gradients_in_parallel_loops():
    @njit(parallel=True)
    def rows(matrix):
        out = np.empty_like(matrix)
        for i in prange(matrix.shape[0]):
            out[i] = energy_and_gradient(matrix[i])[1]
        return out

    matrix = np.arange(400.0).reshape(100, 4)
    np.testing.assert_array_equal(rows(matrix), 2 * matrix)


@pytest.fixture
def _counting():
    # They stay on: all tests of this process may count.
    _nrt_python.memsys_enable_stats()


@pytest.mark.usefixtures("_counting")
def test_nothing_leaks():
    by_array = ar.grad(refuses_negative, (0, 1))
    good, bad = np.ones(3), -np.ones(3)
    by_array(1.0, good)
    energy_and_gradient(good)
    before = rtsys.get_allocation_stats()
    for _ in range(10):
        energy_and_gradient(good[::2])
        by_array(1.0, good)
        with pytest.raises(ValueError, match="negative"):
            by_array(1.0, bad)
    after = rtsys.get_allocation_stats()
    assert after.mi_alloc - before.mi_alloc >= 30
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


def test_gradients_of_strided_arrays_keep_the_strides():
    x = np.arange(24.0).reshape(4, 6)[::-1, ::2]

    def weighted(x):
        return (x * x * x).sum()

    gradient = ar.grad(weighted)(x)
    assert gradient.strides == x.strides
    np.testing.assert_allclose(gradient, 3 * x**2)
    assert ar.grad(weighted)(np.ones((0, 2))).shape == (0, 2)


def test_arrays_that_are_constants_are_named_once():
    table, settled = np.array([1.0, 2.0]), np.array([3.0])
    settled.setflags(write=False)
    scaled = njit(lambda x: x * table * settled[0])

    @njit
    def total(x):
        return scaled(x).sum()

    with pytest.warns(ar.FrozenArrayWarning, match="`table`, an array that <lambda>") as found:
        slopes = [ar.grad(f)(np.ones(2)) for f in (total, njit(lambda x: 2.0 * total(x)))]
    assert len(found) == 1
    np.testing.assert_array_equal(slopes, [3.0 * table, 6.0 * table])


size = np.ones(2)  # what follows uses the attribute of that name


def test_an_attribute_is_no_array_of_the_module():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ar.FrozenArrayWarning)
        found = ar.grad(njit(lambda x: x[0] * x.size))(np.ones(2))
    np.testing.assert_array_equal(found, [2.0, 0.0])
