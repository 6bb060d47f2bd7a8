"""What is on a tape when `reverse` reads it, and arguments that share memory."""

import numpy as np
import pytest
from numba import float64, njit, types
from numba.typed import List

import activerules as ar
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.chainrules import rrule
from activerules.numba_ext.codegen.types import ConfigType
from activerules.numba_ext.codegen.unlinked import compile_to_link, to_link
from activerules.numba_ext.rules.compiled import annotation_type
from activerules.numba_ext.rules.tapes import reads_value, uses
from activerules.numba_ext.target.readonly import arguments_read, only_reads_arrays
from activerules.rules.protocol import RuleConfig
from activerules.testing import check_gradient, check_rule

X = np.array([2.0, 3.0])


def test_whether_the_value_of_an_annotation_is_read_follows_from_the_instruction_behind_it():
    """From Python 3.13 on, `dret, x` is loaded by one instruction, and `.dval` is that of `x`."""
    assert reads_value(lambda config, dret, tape, x: (dret, x.dval))
    assert not reads_value(lambda config, dret, tape, x: (x, dret.dval))
    assert not reads_value(lambda config, dret, tape, x: (dret.dval, dret.dval))
    assert not uses(lambda config, dret, tape, x: dret.dval, 3)


def product_rule(augmented_tape, reverse):
    """A new function x0 x1 with a rule that puts something on its tape."""

    @njit
    def product(x):
        return x[0] * x[1]

    @ar.augmented_primal(product)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(product(x.val), None, augmented_tape(x.val))

    ar.reverse(product)(reverse)
    return product


def from_list(config, dret: Active, tape, x: Duplicated):
    v = tape[0]
    x.dval[0] += dret.val * v[1]
    x.dval[1] += dret.val * v[0]


def from_view(config, dret: Active, tape, x: Duplicated):
    ar.accumulate(x, dret.val * tape)


@pytest.mark.parametrize(
    ("on_tape", "reverse"),
    [(lambda x: [x], from_list), (lambda x: x[::-1], from_view)],
    ids=["list", "view"],
)
def test_p1_what_is_on_a_tape_keeps_its_contents(on_tape, reverse):
    product = product_rule(njit(on_tape), reverse)

    @njit
    def overwritten(x):
        y = x.copy()
        value = product(y)
        y[:] = 0.0
        return value + np.sum(y)

    assert np.array_equal(ar.grad(overwritten)(X), X[::-1])


@njit
def product_of_items(numbers):
    return numbers[0] * numbers[1]


@ar.augmented_primal(product_of_items)
def _(config, ret: Active, numbers: Duplicated):
    return ar.AugmentedReturn(product_of_items(numbers.val), None, numbers.val)


@ar.reverse(product_of_items)
def _(config, dret: Active, tape, numbers: Duplicated):
    numbers.dval[0] += dret.val * tape[1]
    numbers.dval[1] += dret.val * tape[0]


@njit
def product_before(numbers):
    value = product_of_items(numbers)
    numbers[0] = 5.0
    return value


def test_p1_a_list_that_is_an_argument_keeps_its_numbers():
    numbers, shadow = List([2.0, 3.0]), List([0.0, 0.0])
    ar.autodiff(ar.Reverse, product_before, Duplicated(numbers, shadow))
    assert list(shadow) == [3.0, 2.0]


def spending(config, dret: Active, tape, x: Duplicated):
    tape *= dret.val
    ar.accumulate(x, tape)


def test_p2_a_reverse_that_writes_into_its_tape_works_on_a_copy():
    product = product_rule(njit(lambda x: x[::-1].copy()), spending)
    out, pull = ar.vjp(product, X)
    assert out == 6.0
    for scale in (2.0, -1.0, 1.0):
        assert np.array_equal(pull(scale)[0], scale * X[::-1])


@njit
def curved(x):
    return 0.5 * np.sum(x * x)


@ar.augmented_primal(curved)
def _(config, ret: Active, x: Duplicated):
    return ar.AugmentedReturn(curved(x.val), None, (x.val.copy(), x.dval))


@ar.reverse(curved)
def _(config, dret: Active, tape, x: Duplicated):
    value, shadow = tape
    shadow += dret.val * value


def test_a_reverse_that_writes_into_an_argument_on_its_tape_changes_no_second_derivative():
    @njit
    def energy(x):
        return 0.5 * np.sum(x * x)

    @ar.augmented_primal(energy)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(energy(x.val), None, x.val)

    @ar.reverse(energy)
    def _(config, dret: Active, tape, x: Duplicated):
        tape *= dret.val
        ar.accumulate(x, tape)

    @njit
    def program(x):
        w = x.copy()
        return 3.0 * energy(w) + np.sum(w * x)

    np.testing.assert_array_equal(ar.hvp(program, X, X), 5.0 * X)
    argument = X.copy()
    _, pullback = rrule(energy, argument)
    for _ in range(2):
        np.testing.assert_array_equal(pullback(3.0)[1], 3.0 * X)
    np.testing.assert_array_equal(argument, X)


def test_what_a_reverse_adds_to_a_shadow_on_its_tape_is_added():
    x_bar = np.ones(2)
    ar.autodiff(ar.Reverse, curved, ar.Duplicated(X, x_bar))
    assert np.array_equal(x_bar, 1.0 + X)


def through_flat(config, dret: Active, tape, x: Duplicated):
    for i in range(len(tape)):
        tape.flat[i] = dret.val * tape[i]
    ar.accumulate(x, tape)


def through_out(config, dret: Active, tape, x: Duplicated):
    np.dot(dret.val * np.eye(len(tape)), tape.copy(), tape)
    ar.accumulate(x, tape)


def through_an_alias(config, dret: Active, tape, x: Duplicated):
    spent = np.ascontiguousarray(tape)
    spent *= dret.val
    ar.accumulate(x, spent)


@pytest.mark.parametrize("reverse", [through_flat, through_out, through_an_alias])
def test_p2_what_numba_lets_write_into_a_tape_writes_into_a_copy(reverse):
    product = product_rule(njit(lambda x: x[::-1].copy()), reverse)
    _, pull = ar.vjp(product, X)
    for scale in (2.0, -1.0):
        assert np.array_equal(pull(scale)[0], scale * X[::-1])


def spending_a_list(config, dret: Active, tape, x: Duplicated):
    numbers, arrays = tape
    numbers[0] *= dret.val
    arrays[0] *= dret.val
    x.dval[0] += arrays[0][1]
    x.dval[1] += numbers[0]


def test_a_reverse_that_writes_into_a_list_of_its_tape_works_on_a_copy(unfreed):
    product = product_rule(njit(lambda x: ([x[0], 7.0], [x.copy()])), spending_a_list)
    _, pull = ar.vjp(product, X)
    for scale in (2.0, -1.0, 3.0):
        assert np.array_equal(pull(scale)[0], scale * X[::-1])
    assert unfreed(lambda: pull(2.0)) == 0


def test_readonly_o1_reads_of_a_tape_are_known_for_reads():
    def read(tape):
        matrix, (vector, n) = tape
        return (matrix.T @ vector)[n] + np.dot(vector, vector) + vector.sum()

    def written(tape):
        tape[1][0].flat[0] = 1.0

    matrix = types.Array(types.float64, 2, "C", readonly=True)
    vector = types.Array(types.float64, 1, "C", readonly=True)
    tape = types.Tuple((matrix, types.Tuple((vector, types.int64))))
    assert only_reads_arrays(compile_to_link(to_link(read), (tape,)), 0)
    assert not only_reads_arrays(compile_to_link(to_link(written), (tape,)), 0)


@njit
def squares(out, x):
    out[:] = x * x


@ar.augmented_primal(squares)
def _(config, ret: Const, out: Duplicated, x: Duplicated):
    squares(out.val, x.val)
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(squares, saves="x")
def _(config, dret: Const, tape, out: Duplicated, x: Duplicated):
    ar.accumulate(x, 2.0 * x.val * out.dval)
    out.dval[:] = 0.0


@ar.forward(squares)
def _(config, ret: Const, out: Duplicated, x: Duplicated):
    out.dval[:] = 2.0 * x.val * x.dval
    squares(out.val, x.val)


@njit
def squared_onto(x, from_, to):
    y = np.concatenate((x, x))
    squares(y[to : to + 3 : 2], y[from_ : from_ + 3 : 2])
    return np.sum(y)


def squared_along(*args):
    return ar.jvp(squared_onto, args, (X, 0, 0))


@njit
def refuse(out, x):
    if len(out) == len(x):
        raise ValueError("as the check does")


@njit
def refused_by_itself(x, from_, to):
    y = np.concatenate((x, x))
    refuse(y[to : to + 3 : 2], y[from_ : from_ + 3 : 2])
    return np.sum(y)


def test_arguments_that_share_memory_are_refused_where_it_is_written(unfreed):
    def refused():
        with pytest.raises(ar.RuleArgumentsOverlap, match="arrays passed to squares share memory"):
            derivative(X, 0, 0)

    def by_itself():
        with pytest.raises(ValueError, match="as the check does"):
            refused_by_itself(X, 0, 0)

    lost = unfreed(by_itself)
    for derivative, most in ((ar.grad(squared_onto), lost), (squared_along, 2 * lost)):
        assert unfreed(refused) <= most


def squared_along_two(x, *others):
    return ar.autodiff(ar.Forward, squared_onto, ar.BatchDuplicated(x, (x, 2.0 * x)), *others)


def squared_twice(x, *others):
    return ar.hvp(squared_onto, x, x, *others)


@pytest.mark.parametrize("derivative", [squared_along_two, squared_twice])
def test_batches_and_second_derivatives_refuse_them_too(derivative):
    with pytest.raises(ar.RuleArgumentsOverlap, match="arrays passed to squares share memory"):
        derivative(X, 0, 0)


def test_arguments_whose_items_lie_between_each_other_share_none():
    # y = (x0, x1, x0, x1), and y1, y3 become y0**2, y2**2.
    slope = 2 + 4 * X[0]
    assert np.array_equal(ar.grad(squared_onto)(X, 0, 1), [slope, 0.0])
    assert np.allclose(squared_along_two(X, 0, 1), (slope * X[0], 2 * slope * X[0]), rtol=1e-14)
    assert np.array_equal(squared_twice(X, 0, 1), [4 * X[0], 0.0])


@njit
def exponentials(x):
    return np.exp(x), 2.0 * x[::-1], x[0] * 3.0


@ar.augmented_primal(exponentials)
def _(config, ret: ar.MixedDuplicated, x: ar.Duplicated):
    y, z, s = exponentials(x.val)
    return ar.AugmentedReturn((y, z, s), (np.zeros_like(y), np.zeros_like(z), 0.0), None)


@ar.reverse(exponentials)
def _(config, dret: ar.MixedDuplicated, tape, x: ar.Duplicated):
    y, _, _ = dret.val
    y_bar, z_bar, s_bar = dret.dval
    ar.accumulate(x, y_bar * y + 2.0 * z_bar[::-1])
    x.dval[0] += 3.0 * s_bar


def test_the_result_in_dret_is_what_it_was(unfreed):
    @njit
    def program(x):
        y, z, s = exponentials(x)
        total = (y * y).sum() + s * z.sum()
        y[:] = 0.0
        z[:] = 0.0
        return total

    check_gradient(program, (X,))
    check_rule(exponentials, X, compiled=False)
    assert unfreed(lambda: ar.grad(program)(X)) == 0


@njit
def scaled_sum(scale, x):
    return scale[0] * np.sum(x * x)


@ar.augmented_primal(scaled_sum)
def _(config, ret: Active, scale: Duplicated, x: Duplicated):
    return ar.AugmentedReturn(scaled_sum(scale.val, x.val), None, np.sum(x.val * x.val))


@ar.reverse(scaled_sum)
def scaled_sum_reverse(config, dret: Active, tape, scale: Duplicated, x: Duplicated):
    ar.accumulate(scale, np.full(scale.val.shape, tape * dret.val))
    ar.accumulate(x, 2.0 * dret.val * scale.val[0] * x.val)


def test_arrays_that_a_reverse_reads_are_kept_without_saves():
    """Such a gradient would be wrong, with no word about it."""

    @njit
    def program(scale, x):
        y, s = x * 1.0, scale * 1.0
        total = scaled_sum(s, y)
        y *= 0.5
        s += 1.0
        total += scaled_sum(s, y) + scaled_sum(s, y[1:])
        y[:] = 0.0
        s[:] = 0.0
        return total

    check_gradient(program, (np.array([0.7]), X))


def test_what_a_reverse_reads_is_what_its_result_depends_on():
    def reverse(config, dret, tape, x, y, z):
        ar.accumulate(x, np.zeros_like(x.val))
        ar.accumulate(y, dret.val * z.val[0] * np.ones(y.val.shape))

    vector = types.Array(types.float64, 1, "C")
    annotation = annotation_type(Duplicated, vector)
    config = ConfigType(RuleConfig(overwritten=(True, True, True)))
    arguments = (config, annotation_type(Active, types.float64), types.none, *[annotation] * 3)
    compiled = compile_to_link(to_link(reverse), arguments)
    assert arguments_read(compiled, dict.fromkeys((3, 4, 5), vector)) == {5}


@njit
def exponentiate(x):
    for i in range(len(x)):
        x[i] = np.exp(x[i])


@ar.augmented_primal(exponentiate)
def _(config, ret: Const, x: Duplicated):
    exponentiate(x.val)
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(exponentiate)
def exponentiate_reverse(config, dret: Const, tape, x: Duplicated):
    x.dval[:] *= x.val


@njit
def first_times_second(items):
    return items[0][0] * items[1][0]


@ar.augmented_primal(first_times_second)
def _(config, ret: Active, items: Duplicated):
    return ar.AugmentedReturn(first_times_second(items.val), None, None)


@ar.reverse(first_times_second)
def first_times_second_reverse(config, dret: Active, tape, items: Duplicated):
    items.dval[0][0] += dret.val * items.val[1][0]
    items.dval[1][0] += dret.val * items.val[0][0]


def test_so_are_objects_and_what_the_function_itself_wrote():
    @njit
    def program(x):
        y = x * 0.1
        for _ in range(2):
            exponentiate(y)
            y *= 0.3
        items = List([y * 2.0, y[1:] * 1.0])
        total = first_times_second(items)
        items[0][0] = 0.0
        items[1][0] = 0.0
        return total

    check_gradient(program, (X,))


@pytest.mark.parametrize("kept", ["tape", "saves", ""])
def test_a_column_of_an_array_in_the_order_of_fortran(kept):
    """Numba's type of it has layout F, and it is contiguous: a rule for `float64[::1]` serves."""
    on_tape = njit((lambda x: x) if kept == "tape" else (lambda x: None))

    @njit
    def squares(x):
        return np.sum(x * x)

    @ar.augmented_primal(squares)
    def _(config, ret: Active, x: Duplicated[float64[::1]]):
        return ar.AugmentedReturn(squares(x.val), None, on_tape(x.val))

    @ar.reverse(squares, saves="x" if kept == "saves" else ())
    def _(config, dret: Active, tape, x: Duplicated[float64[::1]]):
        ar.accumulate(x, 2.0 * dret.val * (x.val if tape is None else tape))

    @njit
    def program(a):
        s = 0.0
        for i in range(a.shape[0]):
            s += squares(a[:, i])
            a[i] *= s
        return s

    a = np.asfortranarray(np.random.default_rng(3).uniform(0.2, 0.9, (3, 3)))
    check_gradient(program, (a,))
