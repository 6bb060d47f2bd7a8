"""Rules whose arguments are records and typed dictionaries."""

import numpy as np
import pytest
from numba import float64, njit, types
from numba.experimental import jitclass
from numba.typed import Dict

import activerules as ar
from activerules.errors import NotCompilable, RuleReturnError, TapeMismatch, UnsupportedIR
from activerules.testing import check_gradient
from activerules.testing.numeric import gradient_fd

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
Result = ar.AugmentedReturn
ROW = np.dtype([("a", np.float64, 2), ("b", np.float64), ("n", np.int64)])
RANDOM = np.random.default_rng(20)
X, Y = RANDOM.normal(size=(2, 3)), 1.3


@njit
def value(v, y):
    return (v.a[0] * v.b + v.a[1] ** 2) * y**2


@ar.augmented_primal(value)
def _(config, ret: Active, v: Duplicated, y: Active):
    return Result(value(v.val, y.val), None, v.val.a.copy())


@ar.reverse(value, saves=("v",))
def _(config, dret: Active, tape, v: Duplicated, y: Active):
    s = y.val**2 * dret.val
    v.dval.a[0] += v.val.b * s
    v.dval.a[1] += 2.0 * tape[1] * s
    v.dval.b += tape[0] * s  # which is v.val.a[0]
    return None, 2.0 * y.val * dret.val * (v.val.a[0] * v.val.b + v.val.a[1] ** 2)


ar.opt_out(value, mode="forward")


@njit
def step(v, y):
    """Writes into its argument."""
    v.b *= y
    v.n += 1
    return v.b**2


@ar.augmented_primal(step)
def _(config, ret: Active, v: Duplicated, y: Active):
    before = v.val.b
    return Result(step(v.val, y.val), None, before)


@ar.reverse(step)
def _(config, dret: Active, tape, v: Duplicated, y: Active):
    total = v.dval.b + 2.0 * tape * y.val * dret.val
    v.dval.b = total * y.val
    return None, total * tape


@ar.forward(step)
def _(config, ret: Duplicated, v: Duplicated, y: Duplicated):
    v.dval.b = v.dval.b * y.val + v.val.b * y.dval
    s = step(v.val, y.val)
    return s, 2.0 * v.val.b * v.dval.b


def rows_of(x):
    rows = np.zeros(len(x), ROW)
    rows["a"], rows["b"] = x[:, :2], x[:, 2]
    return rows


@njit
def of_rows(rows, y):
    """Every record is overwritten after the rules ran."""
    s = 0.0
    for row in rows:
        s += value(row, y)
        s *= step(row, y) + value(row, s)
        row.a[1] *= s
        row.b = y
    return s + rows[0].b * rows[0].a[1] + rows[0].n


@njit
def of_rows_made_here(x, y):
    rows = np.zeros(len(x), ROW)
    for i in range(len(x)):
        rows[i].a[0] = x[i, 0]
        rows[i].a[1] = x[i, 1]
        rows[i].b = x[i, 2] * y
    return of_rows(rows, y)


def again(x, y):
    """The cotangent of what is in the records in the end is 0.5."""
    rows = rows_of(x)
    return of_rows(rows, y) + 0.5 * (rows["a"].sum() + rows["b"].sum())


def test_records_of_a_caller(unfreed):
    rows, shadow = rows_of(X), rows_of(np.full((2, 3), 0.5))
    *_, y_bar = ar.autodiff(ar.Reverse, of_rows, Active, Duplicated(rows, shadow), Active(Y))
    assert np.isclose(y_bar, gradient_fd(again, (X, Y), 1), rtol=1e-7)
    x_bar = np.column_stack([shadow["a"], shadow["b"]])
    assert np.allclose(x_bar, gradient_fd(again, (X, Y)), rtol=1e-7)

    def action():
        pair = Duplicated(rows_of(X), rows_of(np.zeros((2, 3))))
        ar.autodiff(ar.Reverse, of_rows, Active, pair, Active(Y))

    assert not unfreed(action)


def test_records_of_the_program(unfreed):
    gradient = ar.grad(of_rows_made_here, argnums=(0, 1))
    for i, found in enumerate(gradient(X, Y)):
        assert np.allclose(found, gradient_fd(of_rows_made_here, (X, Y), i), rtol=1e-7), i
    assert not unfreed(lambda: gradient(X, Y))


def test_two_tangents_and_debug_mode(unfreed):
    wanted = gradient_fd(of_rows_made_here, (X, Y))
    # of `value`, the body; of `step`, the rule, which is for one tangent at a time
    forward = ar.jacfwd(of_rows_made_here)
    assert np.allclose(forward(X, Y), wanted, rtol=1e-7)
    assert not unfreed(lambda: forward(X, Y))
    with ar.debug_mode():
        assert np.allclose(ar.grad(of_rows_made_here)(X, Y), wanted, rtol=1e-7)


def test_a_constant_record_gets_a_shadow_to_throw_away(unfreed):
    def program(y):
        rows = np.zeros(1, ROW)
        rows[0].b = rows[0].a[0] = 2.0
        return step(rows[0], y) * value(rows[0], y)

    check_gradient(njit(program), (Y,))
    gradient = ar.grad(njit(program))
    assert not unfreed(lambda: gradient(Y))


@jitclass([("a", float64[::1]), ("b", float64)])
class Pair:
    def __init__(self, a, b):
        self.a = a
        self.b = b


@njit
def squares(pair, y):
    return np.sum(pair.a**2) * y


@ar.augmented_primal(squares)
def _(config, ret: Active, pair: Duplicated, y: Active):
    return Result(squares(pair.val, y.val), None, pair.val.a)


@ar.reverse(squares)
def _(config, dret: Active, tape, pair: Duplicated, y: Active):
    pair.dval.a += 2.0 * tape * y.val * dret.val
    return None, np.sum(tape**2) * dret.val


def test_an_array_of_an_object_on_a_tape_is_kept_as_it_was():
    def program(x, y):
        pair = Pair(x[:2].copy(), x[2])
        s = squares(pair, y)
        pair.a[:] = s
        return s + pair.a[0] * pair.a[1]

    check_gradient(njit(program), (X[0], Y))


@njit
def of_dict(v, y):
    s = 0.0
    for key, x in v.items():
        s += x[0] * y * len(key)
    return s * v["b"][0] if "b" in v else s


@ar.augmented_primal(of_dict)
def _(config, ret: Active, v: Duplicated, y: Active):
    return Result(of_dict(v.val, y.val), None, None)


@ar.reverse(of_dict, saves=("v",))
def _(config, dret: Active, tape, v: Duplicated, y: Active):
    s, by_b = 0.0, v.val["b"][0]
    for key, x in v.val.items():
        s += x[0] * len(key)
        v.dval[key][0] += y.val * len(key) * by_b * dret.val
    v.dval["b"][0] += s * y.val * dret.val
    return None, s * by_b * dret.val


ar.opt_out(of_dict, mode="forward")


@njit
def with_dict(v, y):
    s = of_dict(v, y)
    v["b"][:] *= s
    s += of_dict(v, s)
    v["aa"][0] = 3.0
    return s + v["b"][0]


def dict_of(x):
    made = Dict()
    made["aa"], made["b"], made["c"] = x[:1].copy(), x[1:2].copy(), x[2:].copy()
    return made


@njit
def with_dict_made_here(x, y):
    made = Dict()
    made["aa"], made["b"], made["c"] = x[:1].copy(), x[1:2].copy(), x[2:].copy()
    return with_dict(made, y)


def test_dictionaries_of_a_caller(unfreed):
    x = X[0]

    def run(shadow):
        pair = Duplicated(dict_of(x), shadow)
        return ar.autodiff(ar.Reverse, with_dict, Active, pair, Active(Y))[-1]

    shadow = dict_of(np.zeros(3))
    shadow["c"][0] = 2.0
    y_bar = run(shadow)
    found = np.concatenate([shadow["aa"], shadow["b"], shadow["c"] - 2.0])
    for i, got in enumerate((found, y_bar)):
        assert np.allclose(got, gradient_fd(with_dict_made_here, (x, Y), i), rtol=1e-7), i
    assert not unfreed(lambda: run(dict_of(np.zeros(3))))


def test_dictionaries_of_the_program_have_tangents_alone(unfreed):
    forward = ar.jacfwd(with_dict_made_here)
    wanted = gradient_fd(with_dict_made_here, (X[0], Y))
    assert np.allclose(forward(X[0], Y), wanted, rtol=1e-7)
    assert not unfreed(lambda: forward(X[0], Y))
    with pytest.raises(UnsupportedIR, match="a dictionary that the differentiated function"):
        ar.grad(with_dict_made_here)(X[0], Y)


@njit
def recursive(v, y, n):
    return of_dict(v, y) if n == 0 else y * recursive(v, y, n - 1)


def test_a_dictionary_in_a_function_that_is_not_inlined_is_refused():
    pair = Duplicated(dict_of(X[0]), dict_of(X[1]))
    with pytest.raises(UnsupportedIR, match="gets from one that calls it"):
        ar.autodiff(ar.Reverse, recursive, Active, pair, Active(Y), 2)


def test_a_rule_that_adds_a_key_is_refused():
    @njit
    def grows(v, y):
        v["new"] = np.array([y])
        return y

    @ar.augmented_primal(grows)
    def _(config, ret: Active, v: Duplicated, y: Active):
        return Result(grows(v.val, y.val), None, None)

    @ar.reverse(grows)
    def _(config, dret: Active, tape, v: Duplicated, y: Active):
        return None, dret.val

    program = njit(lambda v, y: grows(v, y))
    with pytest.raises(ar.NotYetSupported, match="grows"):
        ar.autodiff(
            ar.Reverse, program, Active, Duplicated(dict_of(X[0]), dict_of(X[1])), Active(Y)
        )


def test_a_record_on_a_tape_is_refused():
    @njit
    def function(v, y):
        return v.b * y

    @ar.augmented_primal(function)
    def _(config, ret: Active, v: Duplicated, y: Active):
        return Result(v.val.b * y.val, None, v.val)

    @ar.reverse(function)
    def _(config, dret: Active, tape, v: Duplicated, y: Active):
        v.dval.b += y.val * dret.val
        return None, tape.b * dret.val

    program = njit(lambda rows, y: function(rows[0], y))
    pair = Duplicated(rows_of(X), rows_of(X))
    with pytest.raises(TapeMismatch, match="holds Record"):
        ar.autodiff(ar.Reverse, program, Active, pair, Active(Y))


def test_a_record_on_a_tape_made_by_another_function_is_refused_with_advice():
    plain = np.dtype([("a", np.float64), ("b", np.float64)])

    @njit
    def function(v, y):
        return v[0].b * y

    @njit
    def kept(v, y):
        return (v[0],), y

    @ar.augmented_primal(function)
    def _(config, ret: Active, v: Const, y: Active):
        return Result(v.val[0].b * y.val, None, kept(v.val, y.val))

    @ar.reverse(function)
    def _(config, dret: Active, tape, v: Const, y: Active):
        return None, tape[0][0].b * dret.val

    with pytest.raises(NotCompilable, match="the fields of a record"):
        ar.grad(function, 1)(np.array([(1.0, 2.0)], plain), Y)


def test_an_array_in_a_record_is_not_returned():
    @njit
    def function(v, y):
        return v.a

    @ar.augmented_primal(function)
    def _(config, ret: Duplicated, v: Duplicated, y: Active):
        return Result(v.val.a, v.dval.a, None)

    @ar.reverse(function)
    def _(config, dret: Duplicated, tape, v: Duplicated, y: Active):
        return None, 0.0

    program = njit(lambda rows, y: function(rows[0], y)[0] * y)
    pair = Duplicated(rows_of(X), rows_of(X))
    with pytest.raises(RuleReturnError, match="return a copy"):
        ar.autodiff(ar.Reverse, program, Active, pair, Active(Y))


@njit
def both(v, w):
    v.b *= w.b


@ar.augmented_primal(both)
def _(config, ret: Const, v: Duplicated, w: Duplicated):
    tape = v.val.b, w.val.b
    both(v.val, w.val)
    return Result(None, None, tape)


@ar.reverse(both)
def _(config, dret: Const, tape, v: Duplicated, w: Duplicated):
    w.dval.b += v.dval.b * tape[0]
    v.dval.b *= tape[1]


def test_one_record_as_two_arguments_is_refused_where_it_is_written():
    @njit
    def program(x, i):
        rows = np.zeros(2, ROW)
        rows[0].b = x
        rows[1].b = 3.0 * x
        both(rows[0], rows[i])
        return rows[0].b

    gradient = ar.grad(program)
    assert np.isclose(gradient(Y, 1), 6.0 * Y)
    with pytest.raises(ar.RuleArgumentsOverlap, match="two objects passed to both"):
        gradient(Y, 0)


@jitclass([("rows", types.DictType(types.int64, float64[::1]))])
class Held:
    def __init__(self, rows):
        self.rows = rows


@njit
def first(held, y):
    return held.rows[0][0] * y


@ar.augmented_primal(first)
def _(config, ret: Active, held: Duplicated, y: Active):
    return Result(first(held.val, y.val), None, None)


@ar.reverse(first, saves=("held",))
def _(config, dret: Active, tape, held: Duplicated, y: Active):
    held.dval.rows[0][0] += y.val * dret.val
    return None, held.val.rows[0][0] * dret.val


def held_of(x):
    rows = Dict.empty(types.int64, float64[::1])
    rows[0] = x.copy()
    return Held(rows)


def test_a_dictionary_in_an_object():
    x, shadow = X[0], held_of(np.ones(3))
    program = njit(lambda held, y: first(held, y) * y)
    pair = Duplicated(held_of(x), shadow)
    *_, y_bar = ar.autodiff(ar.Reverse, program, Active, pair, Active(Y))
    assert np.isclose(y_bar, 2.0 * x[0] * Y)
    assert np.allclose(shadow.rows[0], [1.0 + Y**2, 1.0, 1.0])

    @njit
    def made_here(x, y):
        rows = Dict.empty(types.int64, float64[::1])
        rows[0] = x.copy()
        return first(Held(rows), y)

    with pytest.raises(UnsupportedIR, match="is, or holds, a dictionary"):
        ar.grad(made_here)(x, Y)
