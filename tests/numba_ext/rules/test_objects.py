"""Rules whose arguments are objects: instances, StructRefs, typed lists, and callables."""

import numba
import numpy as np
import pytest
from numba import float64, int64, njit
from numba.core import types
from numba.experimental import jitclass, structref
from numba.typed import List

import activerules as ar
from activerules.errors import NotYetSupported, RuleReturnError, RuleViolation
from activerules.testing import check_gradient, check_rule
from activerules.testing.numeric import gradient_fd

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
Result = ar.AugmentedReturn


@jitclass([("w", float64[:, ::1]), ("b", float64[::1]), ("k", float64)])
class Layer:
    """What is only read."""

    def __init__(self, w, b, k):
        self.w = w
        self.b = b
        self.k = k

    def value(self, x):
        return self.k * np.sum(np.tanh(np.dot(self.w, x) + self.b))


value = Layer.class_type.jit_methods["value"]


@ar.augmented_primal(value)
def _(config, ret: Active, self: Duplicated, x: Duplicated):
    return Result(value(self.val, x.val), None, None)


@ar.reverse(value, saves=("self", "x"))
def _(config, dret: Active, tape, self: Duplicated, x: Duplicated):
    m, d = self.val, self.dval
    y = np.tanh(np.dot(m.w, x.val) + m.b)
    g = dret.val * m.k * (1 - y * y)
    d.w += np.outer(g, x.val)
    d.b += g
    d.k += dret.val * np.sum(y)
    ar.accumulate(x, np.dot(m.w.T, g))


@ar.forward(value)
def _(config, ret: Duplicated, self: Duplicated, x: Duplicated):
    m, d = self.val, self.dval
    y = np.tanh(np.dot(m.w, x.val) + m.b)
    inner = np.dot(d.w, x.val) + np.dot(m.w, x.dval) + d.b
    return m.k * np.sum(y), d.k * np.sum(y) + m.k * np.sum((1 - y * y) * inner)


@jitclass([("h", float64[::1]), ("total", float64), ("steps", int64)])
class Cell:
    """What is written into at every call."""

    def __init__(self, h):
        self.h = h
        self.total = 0.0
        self.steps = 0

    def step(self, u):
        self.h[:] = np.tanh(self.h * u)
        self.total += np.sum(self.h)
        self.steps += 1
        return self.total

    def state(self):
        return self.h

    def product(self, u):
        return np.sum(self.h) * u


methods = Cell.class_type.jit_methods
step, state, product = methods["step"], methods["state"], methods["product"]


@ar.augmented_primal(step)
def _(config, ret: Active | Const, self: Duplicated, u: Active | Const):
    before = self.val.h.copy()
    result = step(self.val, u.val)
    return Result(result, None, (before, self.val.h.copy()))


@ar.reverse(step)
def _(config, dret: Active | Const, tape, self: Duplicated, u: Active | Const):
    before, after = tape
    d = self.dval
    if ar.active(dret):
        d.total += dret.val
    g = (d.h + d.total) * (1 - after * after)
    d.h[:] = g * u.val
    return None, np.sum(g * before)


@structref.register
class PairType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(ty)) for name, ty in fields)


class Pair(structref.StructRefProxy):
    def __new__(cls, a, s):
        return structref.StructRefProxy.__new__(cls, a, s)


structref.define_proxy(Pair, PairType, ["a", "s"])


@numba.njit
def scaled(pair):
    return pair.s * pair.a


@ar.augmented_primal(scaled)
def _(config, ret: Duplicated, pair: Duplicated):
    y = scaled(pair.val)
    return Result(y, np.zeros_like(y), None)


@ar.reverse(scaled, saves="pair")
def _(config, dret: Duplicated, tape, pair: Duplicated):
    d = pair.dval
    d.s += np.sum(dret.dval * pair.val.a)
    d.a += pair.val.s * dret.dval


@ar.forward(scaled)
def _(config, ret: Duplicated, pair: Duplicated):
    v, d = pair.val, pair.dval
    return v.s * v.a, d.s * v.a + v.s * d.a


@numba.njit
def weighted(ws, cs, x):
    s = 0.0
    for i in range(len(ws)):
        s += cs[i] * np.sum(ws[i] * x) ** 2
    return s


@ar.augmented_primal(weighted)
def _(config, ret: Active, ws: Duplicated, cs: Duplicated, x: Duplicated):
    return Result(weighted(ws.val, cs.val, x.val), None, None)


@ar.reverse(weighted, saves=("ws", "cs", "x"))
def _(config, dret: Active, tape, ws: Duplicated, cs: Duplicated, x: Duplicated):
    for i in range(len(ws.val)):
        w = ws.val[i]
        p = np.sum(w * x.val)
        g = 2 * dret.val * p * cs.val[i]
        cs.dval[i] += dret.val * p**2
        d = ws.dval[i]
        d += g * x.val
        ar.accumulate(x, g * w)


@ar.forward(weighted)
def _(config, ret: Duplicated, ws: Duplicated, cs: Duplicated, x: Duplicated):
    s, t = 0.0, 0.0
    for i in range(len(ws.val)):
        p = np.sum(ws.val[i] * x.val)
        p_dot = np.sum(ws.dval[i] * x.val) + np.sum(ws.val[i] * x.dval)
        s += cs.val[i] * p * p
        t += cs.dval[i] * p * p + 2 * cs.val[i] * p * p_dot
    return s, t


@numba.njit
def with_all(layer, cell, pair, ws, cs, x):
    """Every object is read or written again after its rule ran."""
    s = layer.value(x) + weighted(ws, cs, scaled(pair))
    for u in x:
        s += cell.step(u) ** 2
    layer.b[:] = 0.5
    pair.s *= 3.0
    ws[0][:] = cell.h
    cs[1] = s
    return s * layer.k + layer.b[0] * pair.s * ws[0][1] + cs[1] ** 2


@numba.njit
def from_numbers(w, b, k, x):
    """The objects are made inside."""
    ws, cs = List(), List()
    ws.append(2.0 * b)
    ws.append(x + b)
    cs.append(k)
    cs.append(k * k)
    return with_all(Layer(w.copy(), b.copy(), k), Cell(b * k), Pair(b + 1.0, k), ws, cs, x.copy())


@numba.njit
def forwards(b, k):
    ws, cs = List(), List()
    ws.append(scaled(Pair(b, k)))
    cs.append(k)
    return weighted(ws, cs, b) + Layer(np.eye(2), b.copy(), k).value(b)


W, B, K, X = np.array([[0.3, -0.5], [0.2, 0.7]]), np.array([0.4, -0.3]), 1.3, np.array([0.6, 0.9])


def test_rules_of_objects_that_the_program_makes(unfreed):
    gradient, point = ar.grad(from_numbers, argnums=(0, 1, 2, 3)), (W, B, K, X)
    for i, found in enumerate(gradient(*point)):
        assert np.allclose(found, gradient_fd(from_numbers, point, i), rtol=1e-7, atol=1e-9), i
    assert not unfreed(lambda: gradient(*point))


def test_rules_of_objects_in_forward_mode():
    by_b = ar.jacfwd(forwards)(B, K)  # two tangents, one after the other
    assert np.allclose(by_b, gradient_fd(forwards, (B, K)), rtol=1e-8)


def objects(w, b, k, a, s, w0, w1, cs):
    layer, pair = Layer(w.copy(), b.copy(), k), Pair(a.copy(), s)
    return layer, Cell(b * k), pair, List([w0.copy(), w1.copy()]), List(cs)


def test_rules_of_objects_that_are_arguments():
    point = (W, B, K, X + 1.0, 0.7, 2.0 * B, X, np.array([1.5, -0.5]))
    primal = objects(*point)
    shadows = [ar.make_zero(x) for x in primal]
    shadows[0].b[:] = 2.0  # of what is overwritten in the end
    shadows[3][1][:] = 1.0  # of what is only read
    x_bar = np.zeros(2)
    annotated = [Duplicated(x, d) for x, d in zip((*primal, X), (*shadows, x_bar), strict=True)]
    ar.autodiff(ar.Reverse, with_all, *annotated)
    layer, cell, _, ws, cs = shadows

    def again(*args):
        # the cotangent 2 of what `layer.b` holds in the end is used up: that is constant
        return with_all(*objects(*args), X.copy())

    def by(i):
        return gradient_fd(again, point, i)

    found = [layer.w, layer.b + K * cell.h, ws[0], ws[1] - 1.0, np.array(list(cs))]
    for got, i in zip(found, (0, 1, 5, 6, 7), strict=True):
        assert np.allclose(got, by(i), rtol=1e-7, atol=1e-9), i
    assert np.isclose(layer.k + np.sum(cell.h * B), by(2), rtol=1e-7)


def test_a_constant_object_gets_a_shadow_to_throw_away():
    def program(h, u):
        cell = Cell(h.copy())
        return cell.step(u) * cell.step(u)

    check_gradient(numba.njit(program), (B, 0.7), (Const, Active))


# --- what is refused ---


@ar.augmented_primal(state)
def _(config, ret: Duplicated, self: Duplicated):
    return Result(self.val.h, self.dval.h, None)


@ar.reverse(state)
def _(config, dret: Duplicated, tape, self: Duplicated):
    pass


@ar.augmented_primal(product)
def _(config, ret: Active, self: Duplicated, u: Active):
    if u.val < 0.0:
        self.val.h = self.val.h.copy()
    return Result(product(self.val, u.val), None, None)


@ar.reverse(product)
def _(config, dret: Active, tape, self: Duplicated, u: Active):
    d = self.dval
    d.h = d.h + dret.val * u.val
    return None, dret.val * np.sum(self.val.h)


@numba.njit
def handed_out(h, u):
    return Cell(h * u).state()[0]


@numba.njit
def exchanging(h, u):
    return Cell(h * u).product(u)


@numba.njit
def renewed(cell, u):
    cell.h = cell.h * u


@ar.augmented_primal(renewed)
def _(config, ret: Const, cell: Duplicated, u: Active):
    before = cell.val.h.copy()
    renewed(cell.val, u.val)
    return Result(None, None, before)


@ar.reverse(renewed)
def _(config, dret: Const, before, cell: Duplicated, u: Active):
    h_bar = cell.dval.h
    u_bar = np.sum(before * h_bar)
    h_bar *= u.val
    return None, u_bar


@numba.njit
def renewing(h, u):
    cell = Cell(h * u)
    renewed(cell, u)
    return np.sum(cell.h)


@numba.njit
def growing(h, u):
    ws, cs = List(), List()
    ws.append(h * u)
    cs.append(u)
    s = weighted(ws, cs, h)
    ws.append(2.0 * h)
    return s


@numba.njit
def of_a_constant_array(h, u):
    return scaled(Pair(h, u))[0]


@numba.njit
def of_an_array_in_a_list(hs, u):
    return scaled(Pair(hs[0], u))[0]


@pytest.mark.parametrize(
    ("program", "u", "error", "text"),
    [
        (handed_out, 1.0, RuleReturnError, "return a copy"),
        (exchanging, 1.0, RuleViolation, "in the shadow of `self`"),
        (exchanging, -1.0, RuleViolation, "array or object of `self`"),
        (renewing, 1.0, NotYetSupported, "with a rule may replace an array in its argument"),
        (growing, 1.0, NotYetSupported, "of `ws`, an argument of weighted, which has a rule"),
    ],
)
def test_o1_o2_misuse_of_objects_in_rules_is_refused(program, u, error, text):
    gradient = ar.grad(program, argnums=1)
    for _ in range(2):  # and leaves memory as it should be
        with pytest.raises(error) as caught:
            gradient(B, u)
        assert text in str(caught.value)


def test_an_object_of_a_constant_array_and_an_active_number():
    check_gradient(of_a_constant_array, (B.copy(), 0.7), (ar.Const, ar.Active))
    with pytest.raises(ar.MixedActivity, match="memory without a shadow") as caught:
        ar.grad(of_an_array_in_a_list, argnums=1)([B.copy()], 0.7)
    assert caught.value.instead == ["numba.typed.List(hs)"]


# --- functions with data ---


@numba.njit
def doubled(f, x):
    return 2.0 * f(x)


@ar.augmented_primal(doubled)
def _(config, ret: Active, f: Const, x: Active):
    return Result(doubled(f.val, x.val), None, None)


@ar.reverse(doubled)
def _(config, dret: Active, tape, f: Const, x: Active):
    (slope,) = ar.autodiff(ar.Reverse, f.val, Active(x.val))
    return None, 2.0 * dret.val * slope


def with_data(c, w):
    @numba.njit
    def closure(x):
        return c * x * x + w[0] * x

    return closure


def with_a_rule(c):
    @numba.njit
    def cubic(x):
        return c * x**3

    @ar.augmented_primal(cubic)
    def _(config, ret: Active, x: Active):
        return Result(cubic(x.val), None, c * x.val)

    @ar.reverse(cubic)
    def _(config, dret: Active, tape, x: Active):
        return 3.0 * dret.val * tape * x.val

    return cubic


closure, cubic, steeper = with_data(3.0, np.array([2.0])), with_a_rule(2.0), with_a_rule(5.0)


@numba.njit
def of_closures(x):
    return doubled(closure, x) + cubic(x) * steeper(x)


@numba.njit
def passed_on(f, x):
    return doubled(f, x) + doubled(closure, x)


@pytest.mark.filterwarnings("ignore::numba.NumbaExperimentalFeatureWarning")
def test_rules_of_closures_and_of_functions_that_take_them():
    check_gradient(of_closures, (1.5,))
    for f in (closure, cubic):
        check_gradient(passed_on, (f, 1.5))


def test_debug_mode_and_check_rule():
    with ar.debug_mode():
        by_b = ar.grad(forwards)(B, K)
    assert np.allclose(by_b, gradient_fd(forwards, (B, K)), rtol=1e-8)
    check_rule(value, Duplicated(Layer(W, B, K), Layer(W, B, K)), X, compiled=False)


@jitclass([("a", float64[::1])])
class Held:
    """An array that may be reached in another way, too."""

    def __init__(self, a):
        self.a = a


@numba.njit
def multiplied(x, held):
    for i in range(len(x)):
        x[i] *= held.a[i]


@numba.njit
def both_multiplied(one, held):
    for i in range(len(one.a)):
        one.a[i] *= held.a[i]


@ar.augmented_primal(multiplied)
def _(config, ret: Const, x: Duplicated, held: Duplicated):
    tape = x.val.copy(), held.val.a.copy()
    multiplied(x.val, held.val)
    return Result(None, None, tape)


@ar.reverse(multiplied)
def _(config, dret: Const, tape, x: Duplicated, held: Duplicated):
    held.dval.a += x.dval * tape[0]
    x.dval[:] *= tape[1]


@ar.augmented_primal(both_multiplied)
def _(config, ret: Const, one: Duplicated, held: Duplicated):
    tape = one.val.a.copy(), held.val.a.copy()
    both_multiplied(one.val, held.val)
    return Result(None, None, tape)


@ar.reverse(both_multiplied)
def _(config, dret: Const, tape, one: Duplicated, held: Duplicated):
    held.dval.a += one.dval.a * tape[0]
    one.dval.a *= tape[1]


@numba.njit
def multiplied_twice(x, way):
    y, z = x * 1.0, x * 2.0
    one, held = Held(y), Held(z)
    multiplied(z if way == 1 else y, held)
    both_multiplied(Held(z) if way == 2 else held if way == 3 else one, held)
    return np.sum(one.a) + np.sum(z)


def test_what_is_shared_with_an_object_is_refused_where_it_is_written():
    gradient = ar.grad(multiplied_twice)
    x = np.array([0.7, 1.2, 0.4])
    # y = x 2x 2x, z = 2x
    np.testing.assert_allclose(gradient(x, 0), 12.0 * x**2 + 2.0, rtol=1e-14)

    for way, what in (
        (1, "two arguments passed to multiplied share memory"),
        (2, "two objects passed to both_multiplied, which may write into them, share memory"),
        (3, "two objects"),
    ):
        with pytest.raises(ar.RuleArgumentsOverlap, match=what):
            gradient(x, way)


@ar.checkpoint
@njit
def damp(arrays, p):
    """Writes into the arrays of a list."""
    total = p
    for w in arrays:
        total += np.sin(w[1] * total)
        w[2] *= p
    return total


def test_lists_built_from_other_containers_are_passed_to_a_rule_that_writes_into_their_arrays():
    @njit
    def from_dict(x, a, b):
        held = {0: a[::-1].copy(), 1: b}
        return damp(List([held[0], np.sin(b)]), x) + held[1][0]

    @njit
    def from_list(x, a, b):
        held = List([a, b])
        return damp(List([held[0], np.sin(b)]), x) * held[0][2]

    for program in (from_dict, from_list):
        args = (0.7, np.arange(4.0) + 0.3, np.arange(4.0) - 0.6)
        check_gradient(program, args, (Active, Duplicated, Duplicated))
