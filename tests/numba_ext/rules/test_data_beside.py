"""Data that passes beside the arguments: rules that say so run at every call, others warn."""

import warnings
from os.path import abspath

import numpy as np
import pytest
from numba import float64, njit, objmode

import activerules as ar
from activerules import Active, AugmentedReturn, Const, Duplicated
from activerules.chainrules import NoTangent, rrule

PLACES = 4
QUEUE, TANGENTS, COTANGENTS = np.zeros(PLACES), np.zeros(PLACES), np.zeros(PLACES)


@njit
def put(x, place):
    with objmode():
        QUEUE[place] = x


@njit
def take(place):
    with objmode(x="float64"):
        x = QUEUE[place]
    return x


@njit
def put_tangent(x, place):
    with objmode():
        TANGENTS[place] = x


@njit
def take_tangent(place):
    with objmode(x="float64"):
        x = TANGENTS[place]
    return x


@njit
def put_cotangent(x, place):
    with objmode():
        COTANGENTS[place] += x


@njit
def take_cotangent(place):
    with objmode(x="float64"):
        x = COTANGENTS[place]
        COTANGENTS[place] = 0.0
    return x


@ar.augmented_primal(put, sends="x")
def _(config, ret: Const, x: Active, place: Const):
    put(x.val, place.val)
    return AugmentedReturn(None, None, None)


@ar.reverse(put)
def _(config, dret: Const, tape, x: Active, place: Const):
    return take_cotangent(place.val), None


@ar.forward(put, sends=("x",))
def _(config, ret: Const, x: Duplicated, place: Const):
    put(x.val, place.val)
    put_tangent(x.dval, place.val)


@rrule.register(take, receives="ret")
def _(f, place):
    def pullback(dy):
        put_cotangent(dy, place)
        return NoTangent(), NoTangent()

    return take(place), pullback


@ar.forward(take, receives="ret")
def _(config, ret: Duplicated, place: Const):
    return take(place.val), take_tangent(place.val)


@njit
def put_after(x, n, place):
    if n == 0:
        put(x, place)
        return 0
    return put_after(x * x, n - 1, place) + 1


@njit
def taken_after(n, place):
    if n == 0:
        return take(place)
    return taken_after(n - 1, place)


@njit
def program(x, y):
    put(x * x, 0)
    put(y, 1)  # nothing active goes in, and its cotangent is there all the same
    calls = put_after(x, 2, 2)
    return take(0) * take(1) + 3.0 * taken_after(calls, 2) + x


def test_cotangents_follow_declared_data_paths():
    x, y = 1.5, 5.0
    COTANGENTS[:] = 0.0
    assert ar.grad(program)(x, y) == pytest.approx(2 * x * y + 12 * x**3 + 1, rel=1e-14)
    assert not COTANGENTS.any()
    by_y = ar.grad(program, argnums=1)(x, y)
    assert by_y == pytest.approx(x * x, rel=1e-14)
    assert not COTANGENTS.any()


def test_tangents_follow_declared_data_paths():
    x, y = 1.5, 5.0
    value, tangent = ar.jvp(program, (x, y), (1.0, 2.0))
    assert value == pytest.approx(x * x * y + 3 * x**4 + x, rel=1e-14)
    assert tangent == pytest.approx(2 * x * y + 12 * x**3 + 1 + 2 * x * x, rel=1e-14)


def test_a_pair_alone_does_not_send_tangents():
    left = np.zeros(1)

    @njit
    def leave(x):
        with objmode():
            left[0] = x

    @ar.augmented_primal(leave, sends="x")
    def _(config, ret: Const, x: Active):
        leave(x.val)
        return AugmentedReturn(None, None, None)

    @ar.reverse(leave)
    def _(config, dret: Const, tape, x: Active):
        return 5.0

    @njit
    def leaving(x):
        leave(x * x)
        return x

    assert ar.grad(leaving)(3.0) == 31.0
    with pytest.raises(ar.NotYetSupported, match="the tangents go that way, too"):
        ar.hvp(leaving, 3.0, 1.0)


@njit
def put_all(values):
    with objmode():
        QUEUE[:] = values


@njit
def take_all(into):
    with objmode():
        into[:] = QUEUE


@njit
def back(shadow, clear):
    with objmode():
        if clear:
            COTANGENTS[:] = shadow
            shadow[:] = 0.0
        else:
            shadow += COTANGENTS


@ar.augmented_primal(put_all, sends="values")
def _(config, ret: Const, values: Duplicated):
    put_all(values.val)
    return AugmentedReturn(None, None, None)


@ar.reverse(put_all)
def _(config, dret: Const, tape, values: Duplicated):
    back(values.dval, False)


@ar.augmented_primal(take_all, receives="into")
def _(config, ret: Const, into: Duplicated):
    take_all(into.val)
    return AugmentedReturn(None, None, None)


@ar.reverse(take_all)
def _(config, dret: Const, tape, into: Duplicated):
    back(into.dval, True)


def test_data_paths_of_arrays():
    @njit
    def squares(x, buffer):
        put_all(x * x)
        take_all(buffer)
        return np.sum(buffer * np.arange(PLACES)) + x[0]

    x = np.array([0.5, 1.5, 2.5, 3.5])
    buffer = np.full(PLACES, np.nan)
    found = ar.grad(squares)(x, buffer)
    np.testing.assert_allclose(found, 2 * x * np.arange(PLACES) + [1, 0, 0, 0], rtol=1e-14)
    np.testing.assert_array_equal(buffer, x * x)


def rule_of(function, **options):
    @rrule.register(function, replace=True, **options)
    def _(f, place):
        return 1.0, lambda dy: (NoTangent(), NoTangent())


def test_a_rule_that_does_not_say_warns_once():
    @njit
    def silent_take(place):
        with objmode(x="float64"):
            x = QUEUE[place]
        return x

    @njit
    def pure(place):
        if place < 0:
            raise ValueError(place)
        return np.ones(place).sum()

    @njit
    def program(x):
        return x * silent_take(1) * pure(2)

    rule_of(silent_take)
    rule_of(pure)
    with pytest.warns(ar.UndeclaredDataWarning, match="the rule of silent_take is not run") as seen:
        ar.grad(program)(2.0)
    line = program.py_func.__code__.co_firstlineno + 2
    assert [(abspath(w.filename), w.lineno) for w in seen] == [(__file__, line)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ar.grad(program, argnums=(0,))(2.0)
        rule_of(silent_take, sends=())
        ar.grad(lambda x: x * silent_take(2))(2.0)


def test_data_paths_name_parameters_of_the_function():
    @njit(float64(float64))
    def f(x):
        return x

    with pytest.raises(ar.RuleDefinitionError, match="sends names 'ret', which is not an argument"):
        ar.augmented_primal(f, sends="ret")(lambda config, ret, x: None)
    with pytest.raises(ar.RuleDefinitionError, match="receives names 'y'") as caught:
        rrule.register(f, receives=("x", "y"))(lambda f, x: (x, lambda dy: (NoTangent(), dy)))
    assert "one of x, ret" in str(caught.value)
