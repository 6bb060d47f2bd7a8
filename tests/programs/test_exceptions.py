"""Exceptions: the primal's own one comes out, shadows stay as they were, and no more references are
lost than the primal loses: Numba's functions lose what they hold where a callee raises.
"""

import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient
from programs.raising import failed_assertion


class CustomError(Exception):
    pass


@njit
def raises_before_the_loop(x, limit):
    if limit < 0.0:
        raise ValueError("limit must not be negative")
    s = 0.0
    for v in x:
        s += v * v
    return s


@njit
def raises_in_the_loop(x, limit):
    s = 0.0
    for i in range(len(x)):
        y = np.sin(x * i)
        s += y[0] * x[i]
        if i > limit + 4:
            raise CustomError("too far", 7)
    return s


@njit
def raises_after_the_loop(x, limit):
    y = x.copy()
    for i in range(1, len(y)):
        y[i] = y[i] * y[i - 1]
    if limit < 0.0:
        raise RuntimeError("after", limit)
    return y[len(y) - 1]


@njit
def raises_in_a_while(x, limit):
    k = 0
    while x[k] * x[k] < 1e9:
        z = np.zeros(3)
        z[0] = x[k]
        k += 1
        if k == len(x):
            raise IndexError("no entry is large enough")
    return x[k] * limit


@njit
def checked_logarithm(v):
    if v < 0.0:
        raise ValueError("logarithm of a negative number")
    return math.log(1.0 + v)


@njit
def raises_in_a_callee(x, limit):
    s = 0.0
    for i in range(len(x)):
        s += checked_logarithm(x[i] * x[i] + i * limit)
    return s


@njit
def divides_by_zero(x, limit):
    s = 0.0
    for i in range(len(x)):
        s += x[i] / (i + limit + 2.0)
    return s


@njit(boundscheck=True)
def out_of_bounds(x, limit):
    s = 0.0
    for i in range(len(x) + 1):
        s += x[i] * limit
    return s


@njit
def raises_after_writing(x, limit):
    for i in range(len(x)):
        x[i] = x[i] * 2.0
        if i == 3:
            raise ValueError("stopped half-way")
    return x[0] * limit


@njit
def raises_in_nested_loops(x, limit):
    s = 0.0
    for i in range(len(x)):
        t = x[i]
        while t * t < 100.0:
            t = t * 1.5 + 1.0
            for k in range(3):
                if i == 4 and k == 2:
                    raise CustomError(i, k)
                s += t
    return s


PROGRAMS = [
    (raises_before_the_loop, ValueError),
    (raises_in_the_loop, CustomError),
    (raises_after_the_loop, RuntimeError),
    (raises_in_a_while, IndexError),
    (raises_in_a_callee, ValueError),
    (divides_by_zero, ZeroDivisionError),
    (out_of_bounds, IndexError),
    (failed_assertion, AssertionError),
    (raises_after_writing, ValueError),
    (raises_in_nested_loops, CustomError),
]

X = np.random.default_rng(0).uniform(0.5, 1.5, size=8)
SHADOW = np.linspace(1.0, 2.0, 8)
LIMIT = -2.0


def failing_primal(program, kind):
    """The array after the failed call, and its exception."""
    x = X.copy()
    with pytest.raises(kind) as caught:
        program(x, LIMIT)
    return x, caught.value


def failing_derivative(program, kind):
    """The array and the shadow after the failed call, and its exception."""
    x, shadow = X.copy(), SHADOW.copy()
    with pytest.raises(kind) as caught:
        ar.autodiff(ar.Reverse, program, ar.Active, ar.Duplicated(x, shadow), ar.Active(LIMIT))
    return x, shadow, caught.value


@pytest.mark.parametrize(("program", "kind"), PROGRAMS, ids=lambda x: x.__name__)
def test_the_exception_of_the_primal(program, kind):
    x_of_primal, error_of_primal = failing_primal(program, kind)
    x, shadow, error = failing_derivative(program, kind)
    assert error.args == error_of_primal.args
    np.testing.assert_array_equal(shadow, SHADOW)
    np.testing.assert_array_equal(x, x_of_primal)


@pytest.mark.parametrize(("program", "kind"), PROGRAMS, ids=lambda x: x.__name__)
def test_no_more_is_lost_than_by_the_primal(program, kind, unfreed):
    lost = unfreed(lambda: failing_primal(program, kind))
    assert unfreed(lambda: failing_derivative(program, kind)) <= lost


@njit
def squares(a):
    for i in range(len(a)):
        if a[i] < 0.0:
            raise ValueError("negative", i, a[i])
    return a * a


@njit
def passes_exceptions_on(x):
    """Arrays that are exchanged, chosen, in a tuple and made in a callee, where one raises."""
    last, u, chosen = x, x * 2.0, x
    if x[0] > 1.0:
        chosen = u + x
    for i in range(4):
        both = (u, last)
        last = both[0] * x[i] + both[1]
        last, u = u, last + squares(x[i:])[0] * chosen
    return u.sum() + last[0]


@njit
def slopes(x):
    g = ar.grad(passes_exceptions_on)(x)
    return np.sum(g * g)


@njit
def keeps_in_lists(x):
    """Arrays in a list, and what may be None and comes from a rule, where one raises."""
    best = None
    rows = [x * 2.0]
    matrix = np.zeros((len(x), len(x))) + x
    for i in range(len(x)):
        rows.append(x * x[i])
        for row in rows:
            squares(row)
        if i % 2 == 0:
            best = matrix @ rows.pop()
    if best is None:
        return rows[0][0]
    return best[0] + rows[1][0]


@njit
def rows_until_negative(x, first):
    if first > 2.0:
        return None
    rows = [x * first]
    for i in range(len(x)):
        rows.append(x * x[i])
        squares(x[i : i + 1])
    return rows


@njit
def catches(x):
    """Lists that may be None, and the exceptions of the callee that makes them."""
    rows, s = None, 0.0
    for i in range(len(x)):
        item = x * x[i]
        try:
            if rows is None:
                rows = rows_until_negative(x[: i + 2], x[i])
            else:
                s += rows[0][0] * item[1]
                rows = None
            more = rows_until_negative(x, 1.0)
            if more is not None:
                s += more[0][1]
        except Exception:
            s += item[0]
    return s


def test_no_more_is_lost_than_by_a_primal_that_catches_an_exception(unfreed):
    x = np.array([1.5, 0.5, -1.0, 1.0])
    lost = unfreed(lambda: catches(x))
    assert unfreed(lambda: ar.grad(catches)(x)) <= lost
    assert unfreed(lambda: ar.jvp(catches, (x,), (x,))) <= 2 * lost
    gradient = ar.grad(catches)(x)
    for _ in range(50):
        np.testing.assert_array_equal(ar.grad(catches)(x), gradient)
    for k, one in enumerate(np.eye(4)):
        assert ar.jvp(catches, (x,), (one,))[1] == pytest.approx(gradient[k])
    check_gradient(catches, (x,))


def test_no_more_is_lost_than_by_a_primal_whose_callee_raises(unfreed):
    """Forward mode carries two values for each, with four lanes five. What is differentiated again
    is forward mode, too.
    """
    x = np.array([1.5, 0.5, -1.0, 1.0])

    def fails(f, *args):
        def run():
            with pytest.raises(ValueError, match="negative"):
                f(*args)

        return unfreed(run)

    lost = fails(passes_exceptions_on, x)
    assert fails(ar.grad(passes_exceptions_on), x) <= lost
    assert fails(ar.jacfwd(passes_exceptions_on), x) <= 5 * lost
    assert fails(ar.hvp, passes_exceptions_on, x, x) <= 2 * lost
    lost = fails(slopes, x)
    assert fails(ar.grad(slopes), x) <= 2 * lost
    assert fails(ar.hvp, slopes, x, x) <= 4 * lost
    y = np.array([1.5, 0.5, 1.0, -1.0])
    assert fails(ar.grad(keeps_in_lists), y) <= fails(keeps_in_lists, y)
    assert unfreed(lambda: ar.grad(keeps_in_lists)(y * y)) == 0


@njit
def raises_with_arrays(x):
    y = x * 2.0
    for i in range(len(x)):
        z = y * x[i]
        if z[0] < 0.0:
            raise ValueError("negative")
    return z.sum()


@njit
def calls_it(x):
    return raises_with_arrays(x)


@njit
def calls_its_gradient(x):
    return ar.grad(raises_with_arrays)(x)


def test_what_calls_a_derivative_loses_what_calls_the_primal_loses(unfreed):
    """`hvp` is the gradient of code that calls forward mode, with two values for each."""
    x = np.array([1.5, -0.5, 1.0])

    def fails(f, *args):
        def run():
            with pytest.raises(ValueError, match="negative"):
                f(*args)

        return unfreed(run)

    assert fails(ar.grad(raises_with_arrays), x) <= fails(raises_with_arrays, x)
    lost = fails(calls_it, x)
    assert fails(calls_its_gradient, x) <= lost
    assert fails(ar.hvp, raises_with_arrays, x, x) <= 2 * lost


@njit
def tells_its_row(x, name):
    y = x * 2.0
    if y[1] < 0.0:
        if y[0] < 4.0:
            raise ValueError(name + " is negative", y[1])
        raise ValueError("negative", y, x, y)
    return y[0] * y[1]


@njit
def catches_what_it_tells(x, name):
    y = x * 3.0
    try:
        s = tells_its_row(x, name) * y[0]
    except Exception:
        s = y[1] * y[1]
    return s


def test_what_an_exception_tells(unfreed):
    x, y = np.array([1.5, -0.5]), np.array([2.5, -0.5])

    def tells(f, *args):
        with pytest.raises(ValueError, match="negative") as caught:
            f(*args)
        return caught.value.args

    assert unfreed(lambda: tells(tells_its_row, x, "x")) > 0
    for mode in (ar.grad, ar.jacfwd):
        run = mode(tells_its_row)
        assert tells(run, x, "x") == ("x is negative", -1.0)
        assert unfreed(lambda: [tells(run, z, "x") for z in (x, y)]) == 0
        told = [tells(run, y, "x") for _ in range(20)]
        assert all(row.tolist() == again.tolist() == [5.0, -1.0] for _, row, _, again in told)
    catches = ar.grad(catches_what_it_tells)
    lost = unfreed(lambda: catches_what_it_tells(x, "x"))
    assert unfreed(lambda: catches(x, "x")) <= lost
    np.testing.assert_allclose(catches(x, "x"), [0.0, -9.0])


@njit
def rows_of(x):
    """Keeps an argument, an array and a list while it waits; yields arrays in tuples."""
    rows = [x * 2.0]
    for i in range(len(x)):
        squares(x[i : i + 1])
        rows.append(rows[i] * x[i])
        yield rows[i], x[i]


@njit
def products(x):
    """A generator that waits in another one."""
    for row, v in rows_of(x):
        yield row * v


@njit
def iterates(x):
    """Generators left early, read to the end, made anew and read by `next`, where one raises."""
    s = 0.0
    rows = rows_of(x)
    for i in range(3):
        for product in products(x[i:]):
            s += product[0]
            if s > 9.0:
                break
        s += next(rows)[0][1]
        rows = rows_of(x * x[i])
    return s


@njit
def multiples(x):
    """Raises where it begins, or later on."""
    for v in x:
        squares(x[2:] * v)
        yield x * v


@njit
def turns(x):
    """Two variables hold a generator where this one waits."""
    rows = multiples(x)
    same = rows
    for row in rows:
        yield row * next(same)


@njit
def twice(rows):
    for row in rows:
        yield 2.0 * row


@njit
def goes_on_with(rows):
    """Returns what its caller holds, too."""
    next(rows)
    return rows


@njit
def shares(x):
    """Each place that a generator waits in has one of its own, which begins as it was then."""
    s = 0.0
    for row in twice(multiples(x)):
        s += row[1]
    rows = multiples(x)
    on = goes_on_with(rows)
    turn = turns(x)
    s += next(twice(rows))[0] + next(turn)[1] * next(on)[0]
    s += next(turn)[0] * next(rows)[1]
    return s * squares(x)[0]


@njit
def makes_anew(x):
    """Generators that are made anew in a loop, and left in a `try`."""
    s = 0.0
    rows = multiples(x)
    for i in range(3):
        s += next(rows)[0]
        rows = multiples(x * x[i])
        try:
            for row in multiples(x * x[i]):
                s += row[0]
        except Exception:
            s += x[0]
    return s * checked_logarithm(x[1])


def test_no_more_is_lost_by_the_gradient_of_a_forward_derivative(unfreed):
    x, v = np.array([1.5, 0.5, 1.2]), np.array([0.3, -1.0, 0.5])

    def fails(f, *more):
        for bad in (-x, x * [1.0, -1.0, 1.0], x * [1.0, 1.0, -1.0]):
            with pytest.raises(ValueError, match="negative"):
                f(bad, *more)

    product = ar.hvp(makes_anew, x, v)
    lost = unfreed(lambda: fails(makes_anew))
    assert unfreed(lambda: fails(partial(ar.hvp, makes_anew), v)) <= 2 * lost
    before, there, behind = (makes_anew(x + step * v) for step in (-1e-3, 0.0, 1e-3))
    assert product @ v == pytest.approx((before - 2.0 * there + behind) / 1e-6, rel=1e-4)


@pytest.mark.parametrize("function", [iterates, shares])
def test_nothing_is_lost_where_there_are_generators(function, unfreed):
    """Numba's own function loses what generators hold wherever it ends; a derivative does, and no
    more, where something raises.
    """
    x, v = np.array([1.5, 0.5, 1.2, 1.0]), np.array([0.3, -1.0, 0.5, 0.2])

    gradient, forward = ar.grad(function), partial(ar.jvp, function)

    def returns():
        for _ in range(100):
            gradient(x)
            forward((x,), (v,))

    def fails(run):
        for bad in (-x, x * [1.0, -1.0, 1.0, 1.0], x * [1.0, 1.0, -1.0, 1.0]):
            with pytest.raises(ValueError, match="negative"):
                run(bad)

    assert unfreed(lambda: function(x)) > 5
    assert unfreed(returns) == 0
    lost = unfreed(lambda: fails(function))
    assert unfreed(lambda: fails(gradient)) <= lost
    assert unfreed(lambda: fails(lambda bad: forward((bad,), (v,)))) <= 2 * lost
    assert forward((x,), (v,)) == pytest.approx((function(x), gradient(x) @ v))
    check_gradient(function, (x,))


@njit
def solves(x, which):
    matrix = np.zeros((4, 4))
    for i in range(4):
        matrix[i, i] = x[i] + which
    if which == 0:  # nothing active
        return (np.linalg.solve(np.zeros((4, 4)), np.ones(4)) * x).sum()
    return np.linalg.solve(matrix, x).sum()


@pytest.mark.parametrize("which", [0, 1])
def test_no_more_is_lost_where_a_rule_raises(which, unfreed):
    """LAPACK finds a matrix singular, in a rule and in the function itself."""
    x = np.array([1.5, 0.5, -1.0, 1.0])

    def fails(f, *args):
        def run():
            with pytest.raises(np.linalg.LinAlgError, match="singular"):
                f(*args)

        return unfreed(run)

    assert fails(ar.grad(solves), x, which) <= fails(solves, x, which)
    gradient = ar.grad(solves)(x * x, 1)
    for _ in range(20):
        np.testing.assert_array_equal(ar.grad(solves)(x * x, 1), gradient)


@njit
def handed_on(x):
    y = np.dot(np.outer(x, x), x)
    squares(x)
    return y


def test_no_more_is_lost_where_a_call_behind_a_rule_raises(unfreed):
    x = np.array([1.5, 0.5, -1.0])

    def fails(f, *args):
        with pytest.raises(ValueError, match="negative"):
            f(*args)

    lost = unfreed(lambda: fails(handed_on, x))
    assert unfreed(lambda: fails(ar.vjp, handed_on, x)) <= lost


def test_the_next_call_works():
    x, shadow = np.array([1.0, 2.0]), np.zeros(2)
    with pytest.raises(ValueError, match="limit"):
        ar.autodiff(ar.Reverse, raises_before_the_loop, ar.Duplicated(x, shadow), ar.Const(-1.0))
    ar.autodiff(ar.Reverse, raises_before_the_loop, ar.Duplicated(x, shadow), ar.Const(1.0))
    np.testing.assert_array_equal(shadow, [2.0, 4.0])


@njit
def falls_back(x, y):
    try:
        if y < 0.0:
            raise ValueError("negative")
        r = x * y
    except Exception:
        r = x * x * x
    return r + x


def test_an_exception_caught_inside_is_a_branch():
    assert ar.autodiff(ar.Reverse, falls_back, ar.Active(2.0), ar.Active(3.0)) == (4.0, 2.0)
    assert ar.autodiff(ar.Reverse, falls_back, ar.Active(2.0), ar.Active(-3.0)) == (13.0, 0.0)


@njit
def weighted(y, w):
    return (y * w).sum()


@ar.augmented_primal(weighted)
def _(config, ret: ar.Active, y: ar.Duplicated, w: ar.Active):
    if w.val < 0.0:
        raise ValueError("negative: " + str(int(w.val)))
    return ar.AugmentedReturn((y.val * w.val).sum(), None, y.val * 1.0)


@ar.reverse(weighted)
def _(config, dret: ar.Active, tape, y: ar.Duplicated, w: ar.Active):
    y.dval[:] += w.val * dret.val
    return None, (tape * dret.val).sum()


@njit
def weighted_or_raises(y, w):
    """`weighted`, if it raised where its rule does."""
    if w < 0.0:
        raise ValueError("negative: " + str(int(w)))
    return (y * w).sum()


@njit
def goes_on(x):
    s = 0.0
    for i in range(len(x)):
        y = x * s
        try:
            s += weighted(y + 1.0, x[i]) if x[i] < 9.0 else weighted(y, -1.0)
        except Exception:
            s += y[0] * x[i]
    return s


@njit
def goes_on_where_the_function_raises(x):
    s = 0.0
    for i in range(len(x)):
        y = x * s
        try:
            if x[i] < 9.0:
                s += weighted_or_raises(y + 1.0, x[i])
            else:
                s += weighted_or_raises(y, -1.0)
        except Exception:
            s += y[0] * x[i]
    return s


def goes_on_by_itself(x):
    s = 0.0
    for w in x:
        s += ((x * s + 1.0) * w).sum() if 0.0 <= w.real < 9.0 else x[0] * s * w
    return s


def test_a_rule_that_raised_in_a_try_is_not_undone(unfreed):
    """It has left no tape; and no more is lost than if the function had raised."""
    x = np.array([0.5, -1.5, 0.3, 9.5, -0.7, 0.1])
    gradient = ar.grad(goes_on)
    slopes = [goes_on_by_itself(x + 1e-30j * e).imag / 1e-30 for e in np.eye(len(x))]
    np.testing.assert_allclose(gradient(x), slopes, rtol=1e-13)
    assert unfreed(lambda: gradient(x)) <= unfreed(lambda: goes_on_where_the_function_raises(x))


DEEP = """
import math
import numpy as np
from numba import njit
import activerules as ar

@njit
def deep(x, n):
    if n == 0:
        return x[0]
    items = [x * 1.0001]
    return deep(items[0], n - 1) * 1.0001 + math.sin(x[0])

@njit
def light(x, n):
    if n == 0:
        return x
    return light(x, n - 1) * 1.0001 + math.sin(x)

slope = ar.grad(light)(0.3, 10_000)
expected = (light(0.3 + 1e-6, 10_000) - light(0.3 - 1e-6, 10_000)) / 2e-6
print(abs(slope - expected) < 1e-5 * abs(expected))

gradient = ar.grad(deep)
x, step = np.array([0.3, 0.2]), np.array([1e-6, 0.0])
slope = gradient(x, 2_000)[0]
expected = (deep(x + step, 2_000) - deep(x - step, 2_000)) / 2e-6
print(abs(slope - expected) < 1e-5 * abs(expected))
for _ in range(2):
    try:
        gradient(x, 10_000_000)
    except RecursionError as error:
        print(error)
print(gradient(x, 0)[0], gradient(x, 2_000)[0] == slope)

along = np.array([1.0, 0.0]), None
print(abs(ar.jvp(deep, (x, 2_000), along)[1] - slope) < 1e-12 * abs(slope))
try:
    ar.jvp(deep, (x, 10_000_000), along)
except RecursionError as error:
    print(error)
print(abs(ar.jvp(deep, (x, 2_000), along)[1] - slope) < 1e-12 * abs(slope))

@njit
def rate(x, n):
    return ar.jvp(light, (x, n), (1.0, None))[1]

expected = (rate(0.3 + 1e-6, 9) - rate(0.3 - 1e-6, 9)) / 2e-6
print(abs(ar.grad(rate)(0.3, 9) - expected) < 1e-5 * abs(expected))
"""


def test_recursion_too_deep_for_the_stack():
    """10,000 levels of numbers fit, and 2,000 with a list of arrays in each; where Numba's own
    function ends the process, the derivatives of both modes raise, and the process can go on. What
    counts the levels can be differentiated again.
    """
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=True)
    message = "the recursion of a derivative does not fit onto the stack"
    assert done.stdout.splitlines() == [
        *("True", "True", message, message, "1.0 True"),
        *("True", message, "True", "True"),
    ]


@njit
def both_ways(x):
    return rows_of(x), rows_of(x[::-1])


@njit
def reads_both(x):
    there, _ = both_ways(x)
    return next(there)[1]


def test_a_generator_in_what_is_returned_is_refused():
    with pytest.raises(ar.NotYetSupported, match=r"both_ways returns .* with a generator in it"):
        ar.grad(reads_both)(np.array([1.0, 2.0]))
