"""Functions with rules, and inactive ones, that take lists and objects: what they may change."""

import numba
import numpy as np
import pytest
from numba import float64, int64
from numba.experimental import jitclass

import activerules as ar
from activerules.errors import ActiverulesError, NotYetSupported, RuleReturnError

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
Result = ar.AugmentedReturn


@jitclass([("a", float64[:]), ("i", int64[:]), ("k", float64)])
class Box:
    """Arrays, and a number."""

    def __init__(self, n):
        self.a = np.ones(n)
        self.i = np.zeros(n, np.int64)
        self.k = 2.0

    def scaled(self, x):
        return self.k * x


def inactive(function):
    return ar.inactive(numba.njit(function))


@inactive
def step_list(counts):
    counts[0] += 1


@inactive
def step_arrays(arrays):
    arrays[0][0] += 1.0


@inactive
def step_box(box):
    box.i[0] += 1
    box.a[0] += 1.0


@inactive
def itself(box):
    return box


@inactive
def exchange(box, array):
    box.a = array


def counting(a):
    """Every index and factor is changed by an inactive function after it was used."""
    counts, arrays, box, total = [0], [np.ones(2), np.ones(2)], Box(2), 0.0
    for _ in range(3):
        total += a[counts[0]] * a[box.i[0]] * arrays[0][0] * box.a[0]
        step_list(counts)
        step_arrays(arrays)
        step_box(box)
    return total


def handing_out(x):
    box, total = Box(2), 0.0
    other, array = itself(box), np.ones(2)
    for _ in range(3):
        total += x * box.a[0]
        other.a[0] += 1.0
    exchange(box, array)
    for _ in range(3):
        total += x * box.a[0]
        array[0] += 1.0
    return total


def test_what_inactive_functions_write_into_containers_counts_as_overwritten():
    a = np.array([1.0, 2.0, 3.0])
    weights = np.arange(1.0, 4.0) ** 2
    np.testing.assert_allclose(ar.grad(counting)(a), 2.0 * weights * a)
    assert ar.grad(handing_out)(2.0) == 12.0


def paired(body):
    """A function of a container and a number with a rule that takes the container for constant."""
    function = numba.njit(body)

    @ar.augmented_primal(function)
    def _(config, ret: Active, c: Const, x: Active):
        return Result(body_of(c.val, x.val), None, None)

    @ar.reverse(function)
    def _(config, dret: Active, tape, c: Const, x: Active):
        return None, dret.val * c.val[0]

    body_of = numba.njit(body)
    return function


first_times = paired(lambda c, x: c[0] * x)


def hidden_item(x):
    return first_times([x, 1.0], x)


def constant_items(x):
    total = 0.0
    for k in range(3):
        items = [k + 1.0]
        total += first_times(items, x)
    return total


def store(c, x):
    c[0] = x * x
    return x


stores = paired(store)


def stored_item(x):
    items = [0.0]
    stores(items, x)
    return items[0]


def stored_array(x):
    box, array = Box(2), np.ones(2)
    array[0] = x * x
    exchange(box, array)
    return box.a[0]


@inactive
def made_list(n):
    return [1.0, 2.0]


def written_result(x):
    items = made_list(1)
    items[0] = x * x
    return items[0]


def test_a_container_of_constants_is_read_by_a_rule():
    assert ar.grad(constant_items)(2.0) == 6.0


@pytest.mark.parametrize("program", [hidden_item, stored_item, stored_array, written_result])
def test_active_data_in_a_container_is_refused(program):
    with pytest.raises(ActiverulesError):
        ar.grad(program)(3.0)


def method_of_a_box(x):
    box = Box(1)
    return box.scaled(x)


def test_the_rule_of_a_method_fires():
    method = Box.class_type.jit_methods["scaled"]

    @ar.augmented_primal(method)
    def _(config, ret: Active, self: Const, x: Active):
        return Result(self.val.k * x.val, None, None)

    @ar.reverse(method)
    def _(config, dret: Active, tape, self: Const, x: Active):
        return None, 1000.0 * dret.val  # tells the rule from the body

    assert ar.grad(method_of_a_box)(1.0) == 1000.0
    (call,) = ar.explain(method_of_a_box, Active(1.0)).rules
    assert call.name == "Box.scaled"
    assert "x: Active" in (call.rule or "")


# --- what a rule may not return ---


@ar.inactive
@numba.njit
def sometimes(x):
    return x if x > 0.0 else None


@ar.inactive
@numba.njit
def numbers(x):
    yield x


def of_sometimes(x):
    found = sometimes(x)
    return x if found is None else x * found


def of_numbers(x):
    total = 0.0
    for v in numbers(x):
        total += v * x
    return total


@pytest.mark.parametrize("program", [of_sometimes, of_numbers])
def test_results_that_would_lose_the_declaration_are_refused(program):
    with pytest.raises(NotYetSupported, match="has a rule or is inactive"):
        ar.grad(program)(3.0)


@numba.njit
def boxed(x):
    return Box(1)


@ar.augmented_primal(boxed)
def _(config, ret: Active, x: Active):
    return Result(Box(1), None, None)


@numba.njit
def uses_boxed(x):
    return boxed(x).k * x


def test_an_object_that_a_rule_returns_is_refused():
    with pytest.raises(NotYetSupported, match="has a rule and returns Box"):
        ar.grad(uses_boxed)(1.0)


# --- geometry of what a rule returns ---


@numba.njit
def doubled(a):
    return 2.0 * a


@ar.augmented_primal(doubled)
def _(config, ret: Duplicated, a: Duplicated):
    return Result(2.0 * a.val, np.zeros(1), None)


@ar.reverse(doubled)
def _(config, dret: Duplicated, tape, a: Duplicated):
    ar.accumulate(a, np.ones(a.val.shape))


@ar.forward(doubled)
def _(config, ret: Duplicated, a: Duplicated):
    return 2.0 * a.val, np.zeros(1)


@numba.njit
def squares(a):
    total = 0.0
    for v in doubled(a):
        total += v * v
    return total


def test_a_shadow_of_another_shape_is_refused_before_it_is_used():
    a = np.arange(1.0, 4.0)
    with pytest.raises(RuleReturnError, match="does not have the shape and strides of the primal"):
        ar.grad(squares)(a)
    with pytest.raises(RuleReturnError, match="does not have the shape and strides of the primal"):
        ar.autodiff(ar.Forward, squares, Duplicated(a, np.ones(3)))


# --- a tape that holds what the program may write ---


@numba.njit
def exponential(a):
    return np.exp(a)


@ar.augmented_primal(exponential)
def _(config, ret: Duplicated, a: Duplicated):
    y = np.exp(a.val)
    return Result(y, np.zeros_like(y), (y, (a.val[::2], 1.0)))


@ar.reverse(exponential)
def _(config, dret: Duplicated, tape, a: Duplicated):
    y, (every_other, one) = tape
    g = y * dret.dval
    g[::2] += 0.0 * np.log(every_other) * one  # NaN if it was overwritten by what is negative
    ar.accumulate(a, g)


@numba.njit
def overwriting(a):
    b = a.copy()
    y = exponential(b)
    total = y.sum()
    y[:] = 0.0
    b[:] = -1.0
    return total


def test_a_tape_may_hold_the_result_and_the_arguments():
    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ar.grad(overwriting)(a), np.exp(a))


@numba.njit
def columns(a):
    return (a[:, 0] * a[:, 1]).sum()


@ar.augmented_primal(columns)
def _(config, ret: Active, a: Duplicated):
    return Result(columns(a.val), None, a.val)


@ar.reverse(columns, saves="a")
def _(config, dret: Active, tape, a: Duplicated):
    g = np.zeros(a.val.shape)
    g[:, 0], g[:, 1] = tape[:, 1] * dret.val, a.val[:, 0] * dret.val
    ar.accumulate(a, g)


@numba.njit
def of_columns(a):
    b = a.copy().T
    value = columns(b)
    b[:] = 0.0
    return value


def test_copies_keep_the_layout_of_columns():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_allclose(ar.grad(of_columns)(a), a[::-1])
