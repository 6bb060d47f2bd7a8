"""Exceptions around generators: Numba's own function loses what a generator holds wherever it ends;
a derivative does only where something raises, and no more than the primal.
"""

from functools import partial

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient
from programs.raising import checked_logarithm, squares


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


def test_generators_in_a_second_derivative_lose_no_more_than_in_the_primal(unfreed):
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
def test_generators_g1_counted_generators_h1_h3_lose_nothing_unless_something_raises(
    function, unfreed
):
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
def both_ways(x):
    return rows_of(x), rows_of(x[::-1])


@njit
def reads_both(x):
    there, _ = both_ways(x)
    return next(there)[1]


def test_generator_in_what_is_returned_is_refused():
    with pytest.raises(ar.NotYetSupported, match=r"both_ways returns .* with a generator in it"):
        ar.grad(reads_both)(np.array([1.0, 2.0]))
