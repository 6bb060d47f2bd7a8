"""Annotations and the functions of rules inside `@njit` mean what they mean in plain Python."""

from collections import namedtuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from numba.core.runtime import _nrt_python, rtsys
from numba.typed import List

from activerules import errors
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.annotations.signature import Reverse
from activerules.annotations.values import ignore_derivatives, make_zero, onehot
from activerules.numba_ext.calls import overloads  # noqa: F401  (the compiled forms)
from activerules.numba_ext.substitutes import inactive_values
from activerules.numba_ext.target.call_facts import RuleFunctionCompiler
from activerules.rules.protocol import AugmentedReturn, RuleConfig, accumulate, active

Point = namedtuple("Point", "time place")


@njit
def identity(x):
    return x


@njit
def shadow_of(x):
    return x.dval


@njit
def duplicate(x):
    pair = Duplicated(x, x + 1)
    pair.dval[0] += pair.val[1]
    return pair


@njit
def accumulated(x, g):
    accumulate(x, g)
    return active(x)


@njit
def ignored(x):
    return ignore_derivatives(x)


@njit
def zeroed(x):
    return make_zero(x)


def test_annotations_go_in_and_out():
    x, dx = np.arange(3.0), np.zeros(3)
    pair = identity(Duplicated(x, dx))
    assert isinstance(pair, Duplicated)
    assert pair.val is x
    assert pair.dval is dx
    assert identity(Active(2.0)).val == 2.0
    np.testing.assert_array_equal(duplicate(x).dval, [2.0, 2.0, 3.0])


@pytest.fixture
def _counting():
    # They stay on: all tests of this process may count.
    _nrt_python.memsys_enable_stats()


@pytest.mark.usefixtures("_counting")
def test_references_are_balanced():
    x, dx = np.arange(3.0), np.zeros(3)
    before = rtsys.get_allocation_stats()
    for _ in range(100):
        identity(Duplicated(x, dx))
        duplicate(x)
        shadow_of(Duplicated(x, dx))
    after = rtsys.get_allocation_stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


def test_const_has_no_shadow():
    with pytest.raises(TypingError, match="dval"):
        shadow_of(Const(1.0))


def test_a_mode_is_a_constant_with_options():
    @njit
    def mode():
        Reverse.with_primal()
        return 1

    assert mode() == 1


def test_augmented_return_holds_anything():
    @njit
    def rule(x):
        return AugmentedReturn(primal=x, shadow=None, tape=(x, 1))

    assert rule(2.0) == AugmentedReturn(2.0, None, (2.0, 1))


class TestFacts:
    @staticmethod
    def compiled(rule):
        return njit(pipeline_class=RuleFunctionCompiler)(rule)

    def test_branches_that_do_not_apply_are_not_typed(self):
        @self.compiled
        def rule(config, x):
            if active(x):
                x.dval[0] += 1.0
            tape = x.val.copy() if config.overwritten[0] else None
            return tape if config.needs_primal else 0.0

        x, dx = np.ones(2), np.zeros(2)
        assert rule(RuleConfig((False,)), Const(3.0)) is None
        assert rule(RuleConfig((True,)), Duplicated(x, dx)).tolist() == [1.0, 1.0]
        assert dx.tolist() == [1.0, 0.0]
        assert rule(RuleConfig((False,), needs_primal=False), Const("text")) == 0.0

    def test_whether_an_argument_is_none_is_known(self):
        @self.compiled
        def rule(x, weights):
            if weights.val is None:
                return x.val.sum()
            w = weights.val
            if w is not None:
                return np.dot(w, x.val)

        x = Const(np.ones(2))
        assert rule(x, Const(None)) == 2.0
        assert rule(x, Const(np.full(2, 3.0))) == 6.0

    def test_facts_are_values_too(self):
        @self.compiled
        def rule(config):
            return config.width, config.overwritten, config.needs_shadow

        assert rule(RuleConfig((True, False), width=3)) == (3, (True, False), True)


class TestAccumulate:
    @pytest.mark.parametrize("call", [accumulated, accumulated.py_func])
    def test_adds_to_a_shadow_and_projects_to_its_dtype(self, call):
        x, dx = np.ones((2, 3)), np.ones((2, 3), np.float32)
        assert call(Duplicated(x, dx), 2 * x)
        assert (dx == 3).all()

    @pytest.mark.parametrize("call", [accumulated, accumulated.py_func])
    def test_does_nothing_for_const(self, call):
        assert not call(Const(1.0), np.ones(2))

    @pytest.mark.parametrize("call", [accumulated, accumulated.py_func])
    def test_another_shape_is_refused(self, call):
        with pytest.raises(errors.RuleReturnError, match="does not have the shape of"):
            call(Duplicated(np.ones((2, 2)), np.ones((2, 2))), np.ones((1, 2)))

    @pytest.mark.parametrize("call", [accumulated, accumulated.py_func])
    def test_takes_the_real_part_for_a_real_shadow(self, call):
        dx = np.zeros(2)
        call(Duplicated(np.ones(2), dx), np.array([1 + 2j, 3j]))
        assert dx.tolist() == [1.0, 0.0]

    def test_active_is_refused(self):
        with pytest.raises(TypingError, match="Active derivative is returned"):
            accumulated(Active(1.0), np.ones(2))


SAMPLES = [2.0, np.float32(2), 1j, (1.0, 2), Point(1.0, np.ones(2)), np.ones((2, 2)), 3, "a", None]


@pytest.mark.parametrize("x", SAMPLES, ids=repr)
def test_ignore_derivatives_is_an_identity(x):
    assert repr(ignored(x)) == repr(ignored.py_func(x)).replace("np.float32(2.0)", "2.0")


def test_ignored_arrays_are_copies():
    x = np.ones(2)
    assert not np.shares_memory(x, ignored(x))
    assert not np.shares_memory(x, ignore_derivatives(x))


@pytest.mark.parametrize("x", SAMPLES, ids=repr)
def test_make_zero_keeps_the_structure(x):
    assert repr(zeroed(x)) == repr(make_zero(x)).replace("np.float32(0.0)", "0.0")


@pytest.mark.parametrize(
    "x",
    [
        np.arange(24.0).reshape(4, 6)[::-1, ::2],
        np.arange(24.0).reshape(4, 6).T,
        np.arange(6.0)[::-2],
        np.ones((0, 3))[:, ::2],
        np.broadcast_to(np.ones(3), (2, 3)).copy(order="A"),
    ],
)
@pytest.mark.parametrize("call", [zeroed, make_zero])
def test_make_zero_keeps_the_strides(call, x):
    zero = call(x)
    assert zero.shape == x.shape
    assert zero.strides == x.strides or x.size == 0
    assert not zero.any()
    zero[...] = x
    np.testing.assert_array_equal(zero, x)


PAIRS = np.ones(6, [("n", "i4"), ("a", "f8")])


@pytest.mark.parametrize(
    "x", [np.ones(6, bool)[::-2], np.arange(6)[::2], PAIRS[::2], PAIRS["a"], PAIRS["a"][::-1]]
)
def test_make_zero_of_strided_arrays_of_any_items(x):
    zero = zeroed(x)
    assert (zero.shape, zero.strides, zero.dtype) == (x.shape, x.strides, x.dtype)
    np.testing.assert_array_equal(zero, np.zeros_like(x))


def test_onehot_has_one_shadow_per_float():
    @njit
    def compiled(x):
        return onehot(x)

    assert compiled(2.0) == onehot(2.0) == (1.0,)
    assert compiled((1.0, 2.0)) == onehot((1.0, 2.0)) == ((1.0, 0.0), (0.0, 1.0))
    shadows = onehot((1.0, 7, np.ones(2)))
    assert [(a, b, c.tolist()) for a, b, c in shadows] == [
        (1.0, 7, [0.0, 0.0]),
        (0.0, 7, [1.0, 0.0]),
        (0.0, 7, [0.0, 1.0]),
    ]
    assert onehot(np.arange(3)) == ()


@pytest.mark.parametrize(
    "x", [[1.0], {"a": 1.0}, (2.0, List([1.0])), PAIRS, PAIRS[0]], ids=lambda x: type(x).__name__
)
def test_onehot_of_what_has_no_order_of_floats_is_refused(x):
    with pytest.raises(errors.ActivityError):
        onehot(x)


def test_the_engine_s_names_for_an_ignored_float():
    assert set(inactive_values.IGNORE_FUNCTIONS.values()) == {
        "activerules.ignore.f64",
        "activerules.ignore.f32",
    }
