"""The arguments `check_rule` takes: keywords, defaults, tuples, objects, records, lists."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import float64, int64, njit, typed, types
from numba.experimental import jitclass, structref

import activerules as ar
from activerules.annotations.activity import Active, Const
from activerules.errors import RuleCheckError
from activerules.testing import check_gradient, check_rule
from activerules.testing.situations import arguments_of

X = np.array([0.4, -1.1, 0.9])


def test_keywords_and_defaults_and_named_tuples():
    @njit
    def shifted(p, by=1.0, factor=2.0):
        return Pair(p.a * factor, p.b + by)

    @ar.augmented_primal(shifted)
    def _(config, ret: Active, p: Active, by: Active | Const, factor: Active | Const):
        return ar.AugmentedReturn(shifted(p.val, by.val, factor.val), None, None)

    @ar.reverse(shifted)
    def _(config, dret: Active, tape, p: Active, by: Active | Const, factor: Active | Const):
        a_bar, b_bar = dret.val
        return Pair(a_bar * factor.val, b_bar), b_bar, a_bar * p.val.a

    check_rule(shifted, Pair(1.0, 2.0), factor=3.0, compiled=False)
    check_rule(shifted, Pair(1.0, 2.0), compiled=False)


def test_s1_a_default_that_was_not_passed_is_constant():
    @njit
    def shifted(x, by=1.0):
        return x * x + by

    @ar.augmented_primal(shifted)
    def _(config, ret: Active, x: Active, by: Const):
        return ar.AugmentedReturn(shifted(x.val, by.val), None, x.val)

    @ar.reverse(shifted)
    def _(config, dret: Active, tape, x: Active, by: Const):
        return 2.0 * tape * dret.val, None

    left_out, passed = (arguments_of(shifted, args, {}) for args in [(0.7,), (0.7, 2.0)])
    assert left_out[1].kinds == (Const,)
    assert passed[1].kinds == (Const, Active)
    check_rule(shifted, 0.7, compiled=False)


@pytest.mark.parametrize("last", [0, 1])
def test_the_arguments_of_star_args_are_one_tuple(last):
    @njit
    def product(x, *args):
        return x * args[0] * args[1]

    @ar.augmented_primal(product)
    def _(config, ret: Active, x: Active | Const, args: Active | Const):
        return ar.AugmentedReturn(product(x.val, *args.val), None, None)

    @ar.reverse(product)
    def _(config, dret: Active, tape, x: Active | Const, args: Active | Const):
        y_bar = product(x.val, *args.val) * dret.val
        return y_bar / x.val, (y_bar / args.val[0], y_bar / args.val[last])

    x, args = arguments_of(product, (0.7, 1.2, Const(0.4)), {})
    assert (x.value, args.value, args.kinds) == (0.7, (1.2, 0.4), (Const, Active))
    if last == 1:
        check_rule(product, 0.7, 1.2, 0.4, compiled=False)
    else:
        with pytest.raises(RuleCheckError, match="derivative of argument 1"):
            check_rule(product, 0.7, 1.2, 0.4, compiled=False)


class Pair(NamedTuple):
    a: float
    b: float


@jitclass([("w", float64[::1]), ("scale", float64), ("count", int64)])
class Unit:
    def __init__(self, w, scale, count):
        self.w = w
        self.scale = scale
        self.count = count


def pair_of_unit(error):
    """A function of an object, whose pair is off by an error in the derivative of its number."""

    @njit
    def output(u, x):
        return u.count * u.scale * np.dot(u.w, x)

    @ar.augmented_primal(output)
    def _(config, ret: ar.Active, u: ar.Duplicated, x: ar.Duplicated | ar.Const):
        return ar.AugmentedReturn(output(u.val, x.val), None, None)

    @ar.reverse(output, saves=("u", "x"))
    def _(config, dret: ar.Active, tape, u: ar.Duplicated, x: ar.Duplicated | ar.Const):
        g = u.val.count * dret.val
        u.dval.scale += (g + error) * np.dot(u.val.w, x.val)
        u.dval.w[:] += g * u.val.scale * x.val
        ar.accumulate(x, g * u.val.scale * u.val.w)

    return output


def test_objects_are_checked_in_each_number():
    unit, x = Unit(np.array([1.0, 2.0, 0.5]), 1.7, 2), np.array([0.3, -0.7, 2.0])
    check_rule(pair_of_unit(0.0), unit, x)
    assert (unit.scale, unit.count, unit.w.tolist()) == (1.7, 2, [1.0, 2.0, 0.5])
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(pair_of_unit(1e-3), unit, x, compiled=False)


@structref.register
class UnitType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(ty)) for name, ty in fields)


class UnitRef(structref.StructRefProxy):
    def __new__(cls, w, scale, count):
        return structref.StructRefProxy.__new__(cls, w, scale, count)


structref.define_proxy(UnitRef, UnitType, ["w", "scale", "count"])

RECORD = np.zeros(1, [("scale", "f8"), ("count", "i8"), ("w", "f8", (2,))])

RECORD[0] = (1.7, 2, (1.0, 2.0))


@pytest.mark.parametrize(
    "value", [UnitRef(np.array([1.0, 2.0]), 1.7, 2), RECORD[0], RECORD.view(np.recarray)[0]]
)
def test_struct_refs_and_records_are_checked_in_each_number(value):
    def checked(error, *, compiled):
        @njit
        def output(u):
            return u.count * u.scale * u.w[1]

        @ar.augmented_primal(output)
        def _(config, ret: ar.Active, u: ar.Duplicated):
            return ar.AugmentedReturn(output(u.val), None, None)

        @ar.reverse(output, saves="u")
        def _(config, dret: ar.Active, tape, u: ar.Duplicated):
            g = u.val.count * dret.val
            u.dval.scale += (g + error) * u.val.w[1]
            u.dval.w[1] += g * u.val.scale

        check_rule(output, value, compiled=compiled)

    checked(0.0, compiled=True)
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        checked(1e-3, compiled=False)


RECORDS = np.zeros(3, [("w", "f8"), ("n", "i8"), ("v", "f8", (2,)), ("part", [("z", "c16")])])
RECORDS["w"], RECORDS["n"] = X, (2, 1, 3)


@pytest.mark.parametrize("records", [RECORDS, RECORDS[::-1]])
def test_arrays_of_records_are_checked_in_each_number(records):
    def checked(error, *, compiled):
        @njit
        def weighed(r, x):
            s = 0.0
            for i in range(len(r)):
                s += r[i].n * r[i].w * x[i]
            return s

        @ar.augmented_primal(weighed)
        def _(config, ret: ar.Active, r: ar.Duplicated, x: ar.Duplicated):
            return ar.AugmentedReturn(weighed(r.val, x.val), None, None)

        @ar.reverse(weighed, saves=("r", "x"))
        def _(config, dret: ar.Active, tape, r: ar.Duplicated, x: ar.Duplicated):
            for i in range(len(x.val)):
                r.dval[i].w += (dret.val + error) * r.val[i].n * x.val[i]
            ar.accumulate(x, dret.val * r.val["n"] * r.val["w"])

        check_rule(weighed, records, X, compiled=compiled)
        check_gradient(weighed, (records, X))

    checked(0.0, compiled=True)
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        checked(1e-3, compiled=False)


def test_an_array_whose_items_share_memory_is_refused():
    """The program refuses it, too: each item would get the sum of all their derivatives."""
    with pytest.raises(ar.NotYetSupported, match="items share memory"):
        check_rule(np.sum, np.broadcast_to(X, (2, 3)))
    with pytest.raises(ar.NotYetSupported, match="items share memory"):
        check_rule(np.sum, np.lib.stride_tricks.sliding_window_view(X, 2))


def test_typed_lists_are_checked_and_those_of_python_refused():
    @njit
    def product(items):
        return items[0] * items[1]

    @ar.augmented_primal(product)
    def _(config, ret: ar.Active, items: ar.Duplicated):
        return ar.AugmentedReturn(product(items.val), None, (items.val[0], items.val[1]))

    @ar.reverse(product)
    def _(config, dret: ar.Active, tape, items: ar.Duplicated):
        items.dval[0] += tape[1] * dret.val
        items.dval[1] += tape[1] * dret.val

    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(product, typed.List([2.0, 3.0]), compiled=False)
    check_rule(product, typed.List([3.0, 3.0]), compiled=False)
    with pytest.raises(ar.NotYetSupported, match="derivative with respect to a list"):
        check_rule(product, ar.testing.arg([2.0, 3.0], ar.Duplicated), compiled=False)


def test_a_function_as_argument():
    @njit
    def damped(y, p):
        return math.cos(p * y)

    @njit
    def fixed_point(g, y, p):
        for _ in range(200):
            y = g(y, p)
        return y

    @ar.augmented_primal(fixed_point)
    def _(config, ret: Active, g: Const, y: Const, p: Active):
        y_end = fixed_point(g.val, y.val, p.val)
        return ar.AugmentedReturn(y_end, None, y_end)

    @ar.reverse(fixed_point)
    def _(config, dret: Active, tape, g: Const, y: Const, p: Active):
        by_y, by_p = ar.autodiff(ar.Reverse, g.val, Active(tape), Active(p.val))
        return None, None, dret.val * by_p / (1.0 - by_y)

    check_rule(fixed_point, damped, 0.5, 0.8, atol=1e-8)
    check_rule(fixed_point, damped, Const(0.5), 0.8, atol=1e-8)


@pytest.mark.parametrize(("factor", "is_right"), [(1.0 + 4e-16, True), (1.01, False)])
def test_results_of_arrays_and_numbers_are_compared_up_to_rounding(factor, is_right):
    @njit
    def squares_and_sum(x):
        return x * x, np.sum(x)

    @ar.augmented_primal(squares_and_sum)
    def _(config, ret: ar.MixedDuplicated, x: ar.Duplicated):
        y = factor * x.val * x.val
        return ar.AugmentedReturn((y, np.sum(x.val)), (np.zeros_like(y), 0.0), None)

    @ar.reverse(squares_and_sum, saves="x")
    def _(config, dret: ar.MixedDuplicated, tape, x: ar.Duplicated):
        squares_bar, sum_bar = dret.dval
        ar.accumulate(x, 2.0 * x.val * squares_bar + sum_bar)

    if is_right:
        check_rule(squares_and_sum, X, compiled=False)
    else:
        with pytest.raises(RuleCheckError, match="result: found"):
            check_rule(squares_and_sum, X, compiled=False)


def test_an_object_that_a_rule_leaves_otherwise_than_the_function_is_shown():
    @njit
    def grow(unit, x):
        unit.scale = unit.scale + x

    @ar.augmented_primal(grow)
    def _(config, ret: Const, unit: ar.Duplicated, x: Active):
        unit.val.scale += 2.0 * x.val
        return ar.AugmentedReturn(None, None, None)

    @ar.reverse(grow)
    def _(config, dret: Const, tape, unit: ar.Duplicated, x: Active):
        return None, unit.dval.scale

    with pytest.raises(RuleCheckError, match=r"argument 0 after the rule: found .*'scale'"):
        check_rule(grow, Unit(X, 1.0, 2), 0.5, compiled=False)
