"""What the code of a function of partial derivatives tells of its results."""

import math

from activerules.chainrules.partials import NUMBER, returned


def pair_of(x):
    return x, x


def by_branches(Ω, x):
    if x > 0.0:
        return x, 2.0
    return x


def by_a_call(Ω, x):
    return pair_of(x)


def assigned_to(Ω, x):
    x = (x, x)
    return x


def chosen(Ω, x):
    entry = x if x > 0.0 else (x, x)
    return x, entry


def test_q1_what_is_reported_is_so_and_the_rest_is_unknown():
    numbers = {"Ω", "x", "y"}
    cases = [
        (lambda Ω, x: (x, 1.0), [(NUMBER, NUMBER)]),
        (lambda Ω, x: ((x, Ω), (x,)), [((NUMBER, NUMBER), (NUMBER,))]),
        (lambda Ω, x, y: (-math.sin(x) * y,), [(NUMBER,)]),
        (lambda Ω, x, v: (v, x), [(None, NUMBER)]),
        (lambda Ω, x: [x, x], [None]),
        (by_branches, [(NUMBER, NUMBER), (NUMBER,)]),
        (by_a_call, [None]),
        (chosen, [(NUMBER, None)]),
        (lambda Ω, x: (x, x if x > 0.0 else (x, x)), [(NUMBER, None)]),
        (lambda Ω, x: (x, x if x > 0.0 else 2.0), [(NUMBER, NUMBER)]),
        (assigned_to, [None]),
    ]
    for function, expected in cases:
        assert list(returned(function, numbers)) == expected
