"""Forms in which rules take and return what they take and return, and in which they are called."""

from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest
from numba import float64, from_dtype, literal_unroll, literally, njit, typed, types
from numba.experimental import jitclass, structref
from numba.extending import intrinsic, overload, overload_method

import activerules as ar
from activerules.errors import RuleCheckError, RuleReturnError
from activerules.testing import check_gradient, check_rule

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated


class Power(NamedTuple):
    scale: float
    shift: float
    n: int


def new_power(of_power):
    """A function of a named tuple, whose rule returns that derivative in the given form."""

    @njit
    def power(p, x):
        return p.scale * x**p.n + p.shift

    @ar.augmented_primal(power)
    def _(config, ret: Active, p: Active | Const, x: Active | Const):
        return ar.AugmentedReturn(power(p.val, x.val), None, None)

    @ar.reverse(power)
    def _(config, dret: Active, tape, p: Active | Const, x: Active | Const):
        g, n = dret.val, p.val.n
        return of_power(g * x.val**n, g), g * p.val.scale * n * x.val ** (n - 1)

    @njit
    def program(scale, x):
        s = 0.0
        for k in range(3):
            s += power(Power(scale * k, x, 2), x + s)
        return s

    return power, program


@pytest.mark.parametrize(
    "of_power", [njit(lambda a, b: (a, b, None)), njit(lambda a, b: Power(a, b, None))]
)
def test_the_derivative_of_a_named_tuple_is_one_or_a_plain_tuple(of_power):
    power, program = new_power(of_power)
    check_rule(power, Power(2.0, 1.0, 3), 1.5)
    check_gradient(program, (0.4, 0.3))


def test_a_derivative_of_a_tuple_has_an_entry_per_item():
    power, program = new_power(njit(lambda a, b: (a, b)))
    expected = r"expected \(\(float64, float64, None\), float64\)"
    with pytest.raises(RuleReturnError, match=expected):
        ar.grad(program, (0, 1))(0.4, 0.3)
    with pytest.raises(RuleCheckError, match="expected a tuple of 3 entries"):
        check_rule(power, Power(2.0, 1.0, 3), 1.5, compiled=False)


def new_scaling(factor):
    @njit
    def scaling(x):
        return factor * x

    @ar.augmented_primal(scaling)
    def _(config, ret: Active, x: Active):
        return ar.AugmentedReturn(scaling(x.val), None, None)

    @ar.reverse(scaling)
    def _(config, dret: Active, tape, x: Active):
        return 10.0 * factor * dret.val  # tells the rule from the body

    return scaling


first, second = new_scaling(2.0), new_scaling(np.pi)


@njit
def unrolled(x):
    s = 0.0
    for f in literal_unroll((first, second)):
        s += f(x)
    return s


@pytest.mark.filterwarnings("ignore:First-class function")
def test_numbers_are_rounded_to_the_precision_of_the_call():
    """In compiled code 3 * x has double precision, and 4.0 * x, too, if x has single."""

    @njit
    def cube(x):
        return x * x * x

    @ar.augmented_primal(cube)
    def _(config, ret: Active, x: Active):
        return ar.AugmentedReturn(1.0 * cube(x.val), None, None)

    @ar.reverse(cube)
    def _(config, dret: Active, tape, x: Active):
        return dret.val * 3 * x.val**2

    @ar.forward(cube)
    def _(config, ret: Duplicated, x: Duplicated):
        return 1.0 * cube(x.val), 3 * x.val**2 * x.dval

    @njit
    def ratio(pair):
        return pair[0] / pair[1]

    @ar.augmented_primal(ratio)
    def _(config, ret: Active, pair: Active):
        return ar.AugmentedReturn(ratio(pair.val), None, None)

    @ar.reverse(ratio)
    def _(config, dret: Active, tape, pair: Active):
        by_first = 1.0 * dret.val / pair.val[1]
        return by_first, -by_first * ratio(pair.val)

    @njit
    def program(x):
        total = x[0] - x[0]
        for v in x:
            total += cube(v) * ratio((v, x[0]))
        return total

    x = np.array([1.5, -2.0, 0.5], np.float32)
    found = ar.grad(program)(x)
    assert found.dtype == np.float32
    wide = x.astype(np.float64)
    expected = 4 * wide**3 / wide[0]
    expected[0] = 3 * wide[0] ** 2 - np.sum(wide[1:] ** 4) / wide[0] ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    one = np.float32(2.0)
    assert ar.jvp(cube, (one,), (one,))[1] == 24.0
    assert ar.grad(ar.grad(cube))(one) == 12.0
    z = np.complex64(1.0 + 1.0j)
    out, tangent = ar.jvp(cube, (z,), (np.complex64(1.0),))
    assert (out, tangent) == (z**3, 3 * z**2)


def test_an_argument_may_be_none():
    @njit
    def mean(x, weights=None):
        if weights is None:
            return x.sum() / x.size
        return np.dot(weights, x) / x.size

    @ar.augmented_primal(mean)
    def _(config, ret: Active, x: Duplicated, weights: Duplicated | Const):
        return ar.AugmentedReturn(mean(x.val, weights.val), None, None)

    @ar.reverse(mean, saves=("x", "weights"))
    def _(config, dret: Active, tape, x: Duplicated, weights: Duplicated | Const):
        g = dret.val / x.val.size
        if weights.val is None:
            ar.accumulate(x, np.full(x.val.shape, g))
        else:
            ar.accumulate(x, g * weights.val)
            ar.accumulate(weights, g * x.val)

    x, w = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    check_rule(mean, x)
    check_rule(mean, x, w, compiled=False)

    @njit
    def program(x, w):
        return mean(x) * mean(x, None) * mean(x, w)

    check_gradient(program, (x, w))


def test_functions_with_rules_in_an_unrolled_loop():
    assert ar.grad(unrolled)(1.5) == pytest.approx(20.0 + 10.0 * np.pi)


@jitclass([("stiffness", float64)])
class Settings:
    """What `inactive_type` is tested with: the declaration holds for the process."""

    def __init__(self, stiffness):
        self.stiffness = stiffness


ar.inactive_type(Settings)


@njit
def force(settings, x):
    return settings.stiffness * x * x


@njit
def with_force(settings, x):
    return force(settings, x) + settings.stiffness * x


@ar.augmented_primal(force)
def _(config, ret: Active, settings: Const, x: Active):
    return ar.AugmentedReturn(force(settings.val, x.val), None, None)


@ar.reverse(force)
def _(config, dret: Active, tape, settings: Const, x: Active):
    return None, 2.0 * dret.val * settings.val.stiffness * x.val


def test_values_of_an_inactive_type_are_constants():
    settings = Settings(3.0)
    shadow = ar.make_zero(settings)
    assert ar.grad(with_force, argnums=1)(settings, 2.0) == 15.0
    for ask in (
        lambda: ar.autodiff(ar.Reverse, with_force, ar.Duplicated(settings, shadow), Active(2.0)),
        lambda: ar.autodiff(
            ar.Forward, with_force, ar.Duplicated(settings, shadow), ar.Duplicated(2.0, 1.0)
        ),
        lambda: ar.grad(with_force)(settings, 2.0),
    ):
        with pytest.raises(ar.ActivityError, match="`settings` is Settings, which was declared"):
            ask()
    assert shadow.stiffness == 0.0
    _, pull = ar.vjp(with_force, settings, 2.0)
    assert pull(1.0) == (None, 15.0)


class GaugeType(types.StructRef):
    """As Settings, with an array that the program may write."""


structref.register(GaugeType)


class Gauge(structref.StructRefProxy):
    def __new__(cls, offset, table):
        return structref.StructRefProxy.__new__(cls, offset, table)


structref.define_proxy(Gauge, GaugeType, ["offset", "table"])
ar.inactive_type(GaugeType)
Reading = namedtuple("Reading", "low high")
ar.inactive_type(types.NamedUniTuple(float64, 2, Reading))
SAMPLE = np.dtype([("first", np.float64), ("second", np.float64)])
ar.inactive_type(from_dtype(SAMPLE))
ROW = types.UniTuple(types.float32, 3)
ar.inactive_type(types.ListType(ROW))
ar.inactive_type(types.Tuple((float64, types.float32, float64)))


@overload_method(GaugeType, "shifted")
def _(self, x):
    def impl(self, x):
        self.offset = self.offset + x
        return self.offset * x

    return impl


@intrinsic
def first_of(typing_context, reading):
    """Reads by code of its own."""

    def codegen(context, builder, signature, args):
        return builder.extract_value(args[0], 0)

    return reading[0](reading), codegen


@njit
def inactive_inside(x):
    settings = Settings(x)
    settings.stiffness += x
    gauge = Gauge(x, np.ones(2))
    reading = Reading(x, 2.0 * x)
    low, high = reading
    total = low + reading.high + high
    for item in reading:
        total += item
    samples = np.zeros(3, SAMPLE)
    samples[0].first = x
    samples[1]["second"] = x
    samples[2] = samples[0]
    total += samples[0].first + samples[1].second + samples["first"][2]
    kept = typed.List.empty_list(ROW)
    x32 = np.float32(x)
    total += first_of((x, x32, x))
    kept.append((x32, x32, x32))
    for row in kept:
        total += row[2]
    total += kept[0][1]
    return x * (settings.stiffness + gauge.table[1] + total) + gauge.shifted(x)


@njit
def held_array(x):
    table = np.full(2, x)
    return x * Gauge(1.0, table).table[0]


@njit
def held_constant_array(x):
    table = np.full(2, x)
    return x * Gauge(1.0, ar.ignore_derivatives(table)).table[0]


def test_inactive_values_v1_what_is_read_from_values_of_inactive_types_is_constant():
    slope = inactive_inside(1.5) / 1.5  # all that x is multiplied with
    assert ar.grad(inactive_inside)(1.5) == slope
    assert ar.autodiff(ar.Forward, inactive_inside, ar.Duplicated(1.5, 1.0)) == slope


def test_inactive_values_v2_memory_that_is_active_is_refused():
    with pytest.raises(ar.ActiveMemoryInConst, match="declared inactive") as refused:
        ar.grad(held_array)(1.5)
    assert "ignore_derivatives" in str(refused.value)
    assert ar.grad(held_constant_array)(1.5) == 1.5


@njit
def in_mode(x, mode, flag):
    return x * x if mode == "square" and flag else x


@ar.augmented_primal(in_mode)
def _(config, ret: Active, x: Active, mode: Const, flag: Const):
    return ar.AugmentedReturn(in_mode(x.val, mode.val, flag.val), None, None)


@ar.reverse(in_mode)
def _(config, dret: Active, tape, x: Active, mode: Const, flag: Const):
    slope = 2.0 * x.val if mode.val == "square" and flag.val else 1.0
    return slope * dret.val, None, None


@njit
def in_modes(x):
    return in_mode(x, "square", True) + in_mode(x, flag=True, mode="square") + in_mode(x, "", False)


def test_constants_may_be_named_in_a_call():
    check_gradient(in_modes, (1.5,))


@njit
def doubled_aloud(x):
    print("doubled", x)
    return 2.0 * x


@njit
def squared(x):
    return x * x


@ar.augmented_primal(squared)
def _(config, ret: Active, x: Active):
    print("augmented", x.val, 3)
    return ar.AugmentedReturn(x.val * x.val, None, None)


@ar.reverse(squared)
def _(config, dret: Active, tape, x: Active):
    print("reverse", dret.val)
    return doubled_aloud(x.val) * dret.val


@ar.forward(squared)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    print("forward", x.dval)
    return x.val * x.val, 2.0 * x.val * x.dval


@njit
def scaled_square(x):
    return 0.5 * squared(x)


def power_named(x, exponent):
    """Only in compiled code."""


@overload(power_named)
def overload_power_named(x, exponent):
    return lambda x, exponent: x**3 if exponent == "three" else x**2


@ar.augmented_primal(power_named)
def _(config, ret: Active, x: Active, exponent: Const):
    return ar.AugmentedReturn(power_named(x.val, exponent.val), None, exponent.val)


@ar.reverse(power_named)
def _(config, dret: Active, tape, x: Active, exponent: Const):
    return dret.val * (3.0 * x.val**2 if tape == "three" else 2.0 * x.val), None


@ar.forward(power_named)
def _(config, ret, x: Duplicated, exponent: Const):
    slope = 3.0 * x.val**2 if exponent.val == "three" else 2.0 * x.val
    return power_named(x.val, exponent.val), slope * x.dval


@pytest.mark.parametrize("x", [np.array(3.0), np.zeros(0), np.arange(6.0).reshape(2, 3).T])
def test_one_rule_serves_arrays_of_any_number_of_axes(x):
    """Compiled arithmetic of arrays without axes gives numbers."""

    @njit
    def energy(x):
        total = 0.0
        for item in x.flat:
            total += item * item
        return total

    @ar.augmented_primal(energy)
    def _(config, ret: ar.Active, x: ar.Duplicated):
        return ar.AugmentedReturn(energy(x.val), None, x.val)

    @ar.reverse(energy)
    def _(config, dret: ar.Active, tape, x: ar.Duplicated):
        ar.accumulate(x, 2.0 * dret.val * tape)
        ar.accumulate(x, None)

    np.testing.assert_array_equal(ar.grad(energy)(x), 2.0 * x)


@intrinsic
def intrinsic_square(typing_context, x):
    def generate(context, builder, signature, args):
        return builder.fmul(args[0], args[0])

    return x(x), generate


@ar.augmented_primal(intrinsic_square)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(intrinsic_square(x.val), None, None)


@ar.reverse(intrinsic_square)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 20.0 * x.val * dret.val


def test_an_intrinsic_has_rules_for_its_arguments_without_the_typing_context():
    assert ar.grad(lambda x: intrinsic_square(x))(3.0) == 60.0
    with pytest.raises(ar.RuleDefinitionError, match="no argument 'typing_context'"):
        ar.inactive(intrinsic_square, args="typing_context")


def test_strings_written_in_a_call_are_constants_of_its_rules():
    @njit
    def f(x, exponent):
        return power_named(x, "three") * power_named(x, "two") + power_named(x, exponent)

    x = 2.0
    for exponent in ("three", "two"):
        expected = 5 * x**4 + (3 * x**2 if exponent == "three" else 2 * x)
        assert ar.grad(f)(x, exponent) == pytest.approx(expected, rel=1e-14)
        assert ar.jvp(f, (x, exponent), (1.0, None))[1] == pytest.approx(expected, rel=1e-14)


def test_rules_may_print_numbers(capsys):
    assert ar.grad(scaled_square)(3.0) == 3.0
    assert capsys.readouterr().out == "augmented 3.0 3\nreverse 0.5\ndoubled 3.0\n"
    assert ar.autodiff(ar.Forward, scaled_square, ar.Duplicated(3.0, 4.0)) == 12.0
    assert capsys.readouterr().out == "forward 4.0\n"


# --- results that nobody reads ---


@njit
def scale(x, factor):
    x *= factor
    return 2.0 * factor


@ar.augmented_primal(scale)
def _(config, ret: Active, x: Duplicated, factor: Active):
    before = x.val.copy()
    x.val[:] *= factor.val
    primal = 2.0 * factor.val if config.needs_primal else None
    return ar.AugmentedReturn(primal, None, before)


@ar.reverse(scale)
def _(config, dret: Active, tape, x: Duplicated, factor: Active):
    slope = np.sum(tape * x.dval) + 2.0 * dret.val
    x.dval[:] *= factor.val
    return None, slope if config.needs_primal else slope + 100.0  # tells the calls apart


@ar.forward(scale)
def _(config, ret: Const | Duplicated, x: Duplicated, factor: Duplicated):
    x.dval[:] = x.dval * factor.val + factor.dval * x.val
    x.val[:] *= factor.val
    return (2.0 * factor.val, 2.0 * factor.dval) if config.needs_primal else None


@njit
def scaled_twice(x, factor):
    y, z = x.copy(), x.copy()
    scale(y, factor)
    return scale(z, factor) ** 2 + y.sum() + z.sum()


def test_a_rule_is_told_whether_its_result_is_read():
    x = np.array([1.0, 2.0])
    x_bar, factor_bar = ar.grad(scaled_twice, (0, 1))(x, 3.0)
    np.testing.assert_array_equal(x_bar, [6.0, 6.0])
    assert factor_bar == 2.0 * 6.0 * 2.0 + 3.0 + 3.0 + 100.0
    y, dy = ar.jvp(scaled_twice, (x, 3.0), (np.array([1.0, 0.5]), 1.0))
    assert (y, dy) == (54.0, 2.0 * 6.0 * 2.0 + 2 * (1.5 * 3.0 + 3.0))


@njit
def told(x):
    return x * x


# the slope is off by 100 where the rule was asked for the primal
@ar.augmented_primal(told)
def _(config, ret: Active, x: Active):
    if config.needs_primal:
        return ar.AugmentedReturn(x.val * x.val, None, 2.0 * x.val + 100.0)
    return ar.AugmentedReturn(None, None, 2.0 * x.val)


@ar.reverse(told)
def _(config, dret: Active, tape, x: Active):
    return tape * dret.val


@ar.forward(told)
def _(config, ret: Duplicated, x: Duplicated):
    if config.needs_primal:
        return x.val * x.val, (2.0 * x.val + 100.0) * x.dval
    return 2.0 * x.val * x.dval


told_gradient, told_both = ar.grad(told), ar.value_and_grad(told)
told_jacobian = ar.jacfwd(told)
augmented, split_reverse = ar.autodiff_thunk(ar.ReverseSplitNoPrimal, told, Active, Active)


@njit
def without_primal(x):
    tape, _, _ = augmented(Active(x))
    return (
        told_gradient(x),
        ar.autodiff(ar.Reverse, told, Active(x))[0],
        ar.autodiff(ar.Forward, told, Duplicated(x, 1.0)),
        told_jacobian(x),
        split_reverse(Active(x), 1.0, tape)[0],
    )


@njit
def with_primal(x):
    return (
        told_both(x)[1],
        ar.autodiff(ar.ReverseWithPrimal, told, Active(x))[0][0],
        ar.autodiff(ar.ForwardWithPrimal, told, Duplicated(x, 1.0))[0],
        ar.jvp(told, (x,), (1.0,))[1],
        ar.vjp(told, x)[1](1.0)[0],
    )


def test_a_rule_is_told_whether_the_caller_wants_what_its_function_returns():
    assert without_primal(3.0) == (6.0,) * 5
    assert with_primal(3.0) == (106.0,) * 5
    assert ar.autodiff(ar.Reverse, told, Active(3.0)) == (6.0,)
    assert ar.autodiff(ar.ReverseWithPrimal, told, Active(3.0)) == ((106.0,), 9.0)


def test_sums_of_results_that_nobody_wants_need_no_primal():
    def f(x):
        return told(x) - told(2.0 * x) + 3.0 * x

    assert ar.grad(f)(3.0) == 6.0 - 2.0 * 12.0 + 3.0
    assert ar.value_and_grad(f)(3.0) == (9.0 - 36.0 + 9.0, 106.0 - 2.0 * 112.0 + 3.0)


@njit
def symmetrise(a):
    a[:] = a + a.T


@ar.augmented_primal(symmetrise)
def _(config, ret: Const, a: Duplicated):
    symmetrise(a.val)
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(symmetrise)
def _(config, dret: Const, tape, a: Duplicated):
    ar.accumulate(a, a.dval.T)


def test_a_cotangent_may_be_the_shadow_in_another_order():
    @njit
    def weighed(a, w):
        b = a.copy()
        symmetrise(b)
        return np.sum(b * w)

    w = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(ar.grad(weighed)(np.ones((3, 3)), w), w + w.T)
    check_rule(symmetrise, w)


def test_a_function_that_takes_literals_is_refused():
    @njit
    def chosen(x, way):
        return x * x if literally(way) == "square" else x

    ar.augmented_primal(chosen)(lambda config, ret, x, way: None)

    @njit
    def program(x):
        return chosen(x, "square")

    with pytest.raises(ar.NotYetSupported, match=r"chosen \(float64, str\).* has a rule") as caught:
        ar.grad(program)(1.5)
    assert "`literally` in it asks for literals" in str(caught.value)
