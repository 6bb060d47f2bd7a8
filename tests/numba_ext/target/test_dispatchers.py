"""What may be differentiated, beside `@njit` functions: what Numba knows by itself."""

import ctypes
import ctypes.util
import functools
import inspect
import math
import operator
import re
import warnings

import numpy as np
import pytest
from llvmlite import ir
from numba import cfunc, config, float64, guvectorize, int64, njit, types, vectorize
from numba.core import cgutils
from numba.core.errors import NumbaPerformanceWarning
from numba.extending import intrinsic, overload

import activerules as ar
from activerules.chainrules import scalar_rule
from activerules.numba_ext.target.declared import declared_signature
from tests.numba_ext.target import inlined
from tests.numba_ext.target.inlined import first_difference


@vectorize
def cube(x):
    return x**3


@njit
def scaled(x, /, n, *, factor):
    return factor * x**n


@njit
def of_sine(x):
    return ar.grad(math.sin)(x)


class Spring:
    def energy(self, x):
        return x * x


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (math.sin, (1.0,), math.cos(1.0)),
        (math.hypot, (3.0, 4.0), 0.6),
        (np.exp, (0.5,), math.exp(0.5)),
        (operator.mul, (2.0, 3.0), 3.0),
        (abs, (-2.0,), -1.0),
        (np.sum, (np.ones(3),), np.ones(3)),
        (cube, (2.0,), 12.0),
    ],
)
def test_functions_numba_knows(function, args, expected):
    np.testing.assert_allclose(ar.grad(function)(*args), expected)


@njit
def größe(λ):
    return λ * math.sin(λ)


@njit
def außen(λ, n):
    return größe(λ) if n == 0 else außen(λ, n - 1) * λ


def test_names_that_are_not_ascii():
    np.testing.assert_allclose(ar.grad(größe)(0.5), math.sin(0.5) + 0.5 * math.cos(0.5))
    value, slope = 0.25 * math.sin(0.5), 2.0 * 0.5 * math.sin(0.5) + 0.25 * math.cos(0.5)
    np.testing.assert_allclose(ar.jvp(außen, (0.5, 1), (1.0, None)), (value, slope))


def test_disabled_jit_is_refused(monkeypatch):
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    plain = njit(lambda x: x * x)
    for derivative in (ar.grad, ar.jacobian, lambda f: ar.jvp(f, (1.0,), (1.0,))):
        with pytest.raises(ar.NotCompilable, match="NUMBA_DISABLE_JIT is set"):
            derivative(plain)


def test_dispatchers_of_known_functions_inside_njit():
    assert of_sine(1.0) == pytest.approx(math.cos(1.0))


def test_parameters_by_position_or_keyword_only():
    assert ar.grad(scaled)(2.0, 3, factor=0.5) == 6.0
    assert ar.grad(scaled, argnums=2)(2.0, n=3, factor=0.5) == 8.0
    assert ar.autodiff(ar.Reverse, scaled, ar.Active(2.0), 3, ar.Active(0.5)) == (6.0, None, 8.0)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (Spring().energy, "bound to it are unknown to compiled code"),
        (functools.partial(math.pow, 2.0), "bound to it are unknown to compiled code"),
        (cfunc("float64(float64)")(lambda x: x), "an @njit function that calls"),
        (float, "an @njit function that calls float"),
        (print, "an @njit function that calls print"),
        (5, "an @njit function"),
    ],
)
def test_things_without_code_are_refused(thing, message):
    with pytest.raises(ar.NotCompilable, match=message):
        ar.grad(thing)


@njit
def cubes(*xs):
    """The sum of xs[k]^3 y^k, where y is the last of xs."""
    s, y = 0.0, xs[-1]
    for x in xs[::-1]:
        s = s * y + x * x * x
    return s


@njit
def weighted(x, *args):
    return (x * x * args[0]).sum() + (args[1] * x).sum() if len(args) > 1 else x.sum()


@njit
def by_weight(x, w):
    return ar.grad(weighted, argnums=2)(x, 3.0, w)


def test_any_number_of_arguments():
    x, w, dx = np.array([0.5, -2.0]), np.array([3.0, 1.5]), np.array([1.0, 2.0])
    by_x, by_a, by_w = ar.grad(weighted, argnums=(0, 1, 2))(x, 3.0, w)
    np.testing.assert_allclose(by_x, 6.0 * x + w)
    np.testing.assert_allclose((by_a, *by_w), (x @ x, *x))
    np.testing.assert_allclose(by_weight(x, w), x)
    np.testing.assert_allclose(ar.grad(weighted)(x), [1.0, 1.0])
    fields = ar.Duplicated(x, dx), ar.Active(3.0), ar.Const(w)
    _, by_a, _ = ar.autodiff(ar.Reverse, weighted, ar.Active, *fields)
    np.testing.assert_allclose((by_a, *dx), (x @ x, *(6.0 * x + w + [1.0, 2.0])))

    assert ar.grad(cubes, argnums=(0, 2))(1.0, 2.0, 2.0) == (3.0, 8.0 + 5.0 * 16.0)
    assert ar.hessian(cubes, argnums=1)(1.0, 2.0, 3.0) == 36.0
    assert ar.jvp(cubes, (2.0, 1.0), (1.0, 0.0)) == (9.0, 12.0)


def test_what_is_wrong_with_any_number_of_arguments():
    with pytest.raises(ar.ArityError, match="argnums has 2, and the call has 2 arguments"):
        ar.grad(cubes, argnums=2)(1.0, 2.0)
    with pytest.raises(ar.ArityError, match="argnums has -1, and cubes takes any number"):
        ar.grad(cubes, argnums=-1)
    with pytest.raises(ar.ArityError, match="names `args_1` twice"):
        ar.grad(weighted, argnums=(2, 0, 2))
    with pytest.raises(ar.ArityError, match="missing a required argument: 'x'"):
        ar.grad(weighted)()
    with pytest.raises(ar.NotYetSupported, match="variable number of keyword arguments"):
        ar.grad(njit(lambda x, *xs, **more: x))(1.0)
    with pytest.raises(ar.NotYetSupported, match=r"`scale` before them"):
        ar.grad(njit(lambda x, *xs, scale: xs[0] * x * scale))(1.0, 2.0, scale=3.0)


@njit("float64(float64)")
def squared(x):
    return x * x


@njit("float64(float64, float64)")
def of_square(x, n):
    return x * (n * n)


@njit("int64(float64)")
def whole(x):
    return x


@njit
def times(f, x):
    return f(x) * x


@njit
def of_declared(y, n):
    return squared(n) * y + whole(y) * y + times(whole, y)


def test_declared_d1_declared_signatures_convert_arguments_and_results():
    n = 2**32  # whose square is 0 as an integer
    expected = of_declared(2.5, n), 2.0**64 + 4.0
    assert ar.value_and_grad(of_declared)(2.5, n) == expected
    assert ar.jvp(of_declared, (2.5, n), (1.0, None)) == expected
    with pytest.raises(ar.NotAFloatReturn, match="whole returns int64"):
        ar.grad(whole)(2.5)
    assert ar.value_and_grad(of_square)(2.5, n) == (2.5 * 2.0**64, 2.0**64)


def test_declared_d2_an_array_keeps_its_layout():
    @njit("float64(float64[:], float64)")
    def weighed(x, weight):
        return x.sum() * weight

    signature = declared_signature(weighed, (float64[::1], int64))
    assert signature.args == (float64[::1], float64)
    assert declared_signature(weighed, (float64[:, ::1], int64)) is None


class RootByAddress(types.WrapperAddressProtocol):
    """The cube root of the C library, as packages give the functions of SciPy to Numba."""

    def __wrapper_address__(self):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
        return ctypes.cast(library.cbrt, ctypes.c_void_p).value

    def signature(self):
        return float64(float64)


WEIGHTS = np.array([1.3, 2.0])
root, unruled_root = RootByAddress(), RootByAddress()
scalar_rule(root, lambda out, x: (1.0 / (3.0 * out * out),))


@njit
def of_roots(x):
    return root(x) + unruled_root(8)


@njit
def of_unruled_roots(x):
    s = 0.0
    for i in range(x.size):
        s += WEIGHTS[i] * unruled_root(x[i])
    return s


def test_functions_known_by_their_address():
    np.testing.assert_allclose(ar.value_and_grad(of_roots)(27.0), (5.0, 1.0 / 27.0))
    np.testing.assert_allclose(ar.jvp(of_roots, (27.0,), (1.0,)), (5.0, 1.0 / 27.0))
    with pytest.raises(ar.UnknownCall, match="flows into unruled_root, "):
        ar.grad(of_unruled_roots)(WEIGHTS)


@njit
def with_half_a_rule(x):
    return unruled_root(x)


@ar.augmented_primal(with_half_a_rule)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(with_half_a_rule(x.val), None, None)


@ar.reverse(with_half_a_rule)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return dret.val * x.val ** (-2.0 / 3.0) / 3.0


def test_a_body_that_has_a_rule_for_the_other_mode_names_the_rule_to_write():
    @njit
    def program(x):
        return 2.0 * with_half_a_rule(x)

    assert ar.grad(program)(8.0) == pytest.approx(1.0 / 6.0)
    with pytest.raises(ar.UnknownCall) as caught:
        ar.jvp(program, (8.0,), (1.0,))
    assert caught.value.instead[0].endswith("in this mode: @ar.forward(with_half_a_rule)")


@cfunc("float64(float64)")
def cubed(x):
    return x**3


def hidden(x):
    """Implemented below, by a function that nobody sees into."""


@intrinsic
def _external(typingctx, x):
    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(args[0].type, [args[0].type])
        function = cgutils.get_or_insert_function(builder.module, kind, "tests_hidden")
        return builder.call(function, args)

    return types.float64(x), codegen


@overload(hidden)
def _hidden(x):
    return lambda x: _external(x)


@njit
def of_a_callback(x):
    return math.exp(x) + cubed(x)


@njit
def of_what_is_passed(f, x):
    return f(x)


@njit
def of_what_extends_numba(x):
    return math.exp(x) + hidden(x) * abs(x)


@pytest.mark.parametrize(
    ("f", "args", "name", "instead"),
    [
        (of_a_callback, (), "cubed", "scalar_rule(cubed, lambda Ω, x: (dcubed_dx,))"),
        (of_what_is_passed, (cubed,), "f", "call an @njit function in its place"),
        (of_what_extends_numba, (), "hidden", "scalar_rule(hidden, lambda Ω, x: (dhidden_dx,))"),
    ],
)
def test_what_cannot_be_seen_is_named_as_the_program_names_it(f, args, name, instead):
    with pytest.raises(ar.UnknownCall, match=f"flows into {name}, ") as caught:
        ar.grad(f, len(args))(*args, 2.0)
    source, line = inspect.getsourcelines(f.py_func)
    assert instead in str(caught.value)
    assert re.search(
        rf"at the line +{re.escape(source[-1].strip())} .*test_dispatchers.py:{line + 2}",
        str(caught.value),
    )


@njit
def of_inlined_code(x):
    return first_difference(x).sum()


def test_code_that_numba_inlines_is_shown_in_its_own_file():
    with pytest.raises(ar.UnknownCall, match="flows into cubed, ") as caught:
        ar.grad(of_inlined_code)(np.array([0.3, 0.8]))
    statement = "result[0] = cubed(x[1]) - cubed(x[0])"
    source = inspect.getsource(inlined).splitlines()
    line = next(k for k, text in enumerate(source, 1) if text.strip() == statement)
    shown = rf"at the line +{re.escape(statement)} .*inlined\.py:{line}\n"
    assert re.search(shown, str(caught.value))


@guvectorize("(n),()->(n),()")
def scaled_and_summed(values, factor, scaled, total):
    total[0] = 0.0
    for i in range(values.size):
        scaled[i] = values[i] * factor
        total[0] += scaled[i] * scaled[i]


def test_a_generalised_ufunc_is_a_function_of_what_it_reads_and_writes():
    values, factor = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([0.5, 2.0])
    values_bar, factor_bar = np.zeros((2, 2)), np.zeros(2)
    scaled_bar, total_bar = np.ones((2, 2)), np.array([1.0, -1.0])
    ar.autodiff(
        ar.Reverse,
        scaled_and_summed,
        ar.Const,
        ar.Duplicated(values, values_bar),
        ar.Duplicated(factor, factor_bar),
        ar.Duplicated(np.zeros((2, 2)), scaled_bar),
        ar.Duplicated(np.zeros(2), total_bar),
    )
    signs = np.array([1.0, -1.0])  # of the totals; every entry of `scaled` counts once
    scaled = values * factor[:, None]
    expected_bar = 1.0 + 2.0 * signs[:, None] * scaled
    np.testing.assert_allclose(values_bar, expected_bar * factor[:, None])
    np.testing.assert_allclose(factor_bar, (expected_bar * values).sum(axis=1))
    with pytest.raises(ar.ArityError, match="'scaled'"):
        ar.vjp(scaled_and_summed, values, factor)


def test_what_numba_warns_of_a_function_is_not_said_again_of_its_derivative():
    @njit
    def strided(x, a):
        return (a[:, ::2] @ x[::2]).sum() + x[::-1] @ x

    rng = np.random.default_rng(0)
    x, a = rng.normal(size=4), rng.normal(size=(4, 4))
    with pytest.warns(NumbaPerformanceWarning):
        strided(x, a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slopes = ar.grad(strided)(x, a)
        ar.jvp(strided, (x, a), (x.copy(), a.copy()))
    expected = 2.0 * x[::-1]
    expected[::2] += a[:, ::2].sum(axis=0)
    np.testing.assert_allclose(slopes, expected, rtol=1e-12)


@njit
def of_an_operator(x, n):
    return x * (n ^ 1)


@njit
def of_an_overloaded_operator(x, y):
    return (x, y) ^ (y, x * x)


def test_an_operator_is_overloaded_after_it_was_differentiated():
    """As by a package that is imported late."""
    assert ar.grad(of_an_operator)(2.0, 2) == 3.0

    @overload(operator.xor)
    def _products(a, b):
        if isinstance(a, types.BaseTuple) and isinstance(b, types.BaseTuple):
            return lambda a, b: a[0] * b[0] + a[1] * b[1]

    assert ar.grad(of_an_overloaded_operator)(1.0, 3.0) == 9.0


@njit
def of_a_wrong_operation(x):
    return (x, x) - x


def test_an_operator_is_named_as_numba_names_it():
    with pytest.raises(ar.NotCompilable, match=r" Function\(<built-in function sub>\)"):
        ar.grad(of_a_wrong_operation)(2.0)


@njit
def ruled_later(x):
    return x * x


def test_a_rule_is_seen_by_a_derivative_with_options_that_was_made_before():
    slope = ar.grad(ruled_later, error_model="numpy")
    assert slope(1.0) == 2.0
    scalar_rule(ruled_later, lambda y, x: 100.0)
    assert slope(1.0) == 100.0
