"""Functions that call functions: callees, closures, defaults, tuples, recursion."""

import math

import numpy as np
from numba import njit

from programs import example


@njit
def square(x):
    return x * x


@njit
def gaussian(x, width=0.7):
    return math.exp(-square(x / width))


@njit
def sum_and_product(x):
    s, p = 0.0, 1.0
    for v in x:
        s += v
        p *= v
    return s, p


@njit(inline="never")
def scale_in_place(x, factor):
    for i in range(len(x)):
        x[i] *= factor


@njit
def make_squares(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = square(x[i])
    return y


@example(lambda rng: (float(rng.normal()), float(rng.normal())))
@njit
def nested_callees(x, y):
    return gaussian(square(x) + y) * square(y)


@example(lambda rng: (float(rng.normal()), float(rng.uniform(0.5, 1.0))))
@njit
def default_arguments(x, w):
    return gaussian(x) + gaussian(x, w) + gaussian(x, width=2.0 * w)


@example(lambda rng: (float(rng.normal()), float(rng.normal())))
@njit
def program_with_defaults(x, y, scale=2.0, shift=0.5):
    return scale * x * y + math.sin(x + shift)


@example(lambda rng: (rng.normal(size=5),))
@njit
def callee_returns_tuple(x):
    s, p = sum_and_product(x)
    return s * p


@example(lambda rng: (rng.normal(size=5), float(rng.normal())))
@njit
def callee_writes_array(x, factor):
    scale_in_place(x, factor)
    scale_in_place(x[1:4], x[0])
    return x[2] * x[3] + x[4]


@example(lambda rng: (rng.normal(size=5),))
@njit
def callee_returns_array(x):
    y = make_squares(x)
    z = make_squares(y)
    s = 0.0
    for i in range(len(z)):
        s += z[i] * x[i]
    return s


@example(lambda rng: (rng.normal(size=4), 4))
@njit
def callee_returns_array_in_loop(x, n):
    y = x
    for _ in range(n):
        y = make_squares(y)
        for i in range(len(y)):
            y[i] = 0.5 * y[i] + 0.1 * x[i]
    return y[0] * y[3] + y[1]


def _make_power(exponent, scale):
    @njit
    def closure_over_numbers(x):
        return scale * x**exponent + exponent * x

    return closure_over_numbers


closure_over_numbers = example(lambda rng: (float(rng.uniform(0.5, 2.0)),))(_make_power(3, 1.5))

TABLE = np.array([0.3, -1.2, 0.7, 2.0])


@example(lambda rng: (float(rng.normal()),))
@njit
def global_array(x):
    s = 0.0
    for i in range(len(TABLE)):
        s = s * x + TABLE[i]
    return s


@example(lambda rng: (rng.normal(size=4), bool(rng.integers(2))))
@njit
def global_array_or_argument(x, table):
    z = TABLE if table else x
    return (z * x).sum() + np.dot(z, x)


@example(lambda rng: (rng.normal(size=4), 2))
@njit
def global_array_first(x, n):
    z = TABLE
    s = 0.0
    for _ in range(n):
        for i in range(len(x)):
            s += z[i] * x[i]
        z = x
    return s


@example(lambda rng: (float(rng.normal()), float(rng.normal())))
@njit
def inner_function(x, y):
    def inner(t):
        return math.sin(t * y) + x

    return inner(x) * inner(y)


@njit
def integrate(f, a, b, n):
    h = (b - a) / n
    s = 0.5 * (f(a) + f(b))
    for i in range(1, n):
        s += f(a + i * h)
    return s * h


@example(lambda rng: (float(rng.normal()), float(rng.uniform(1.0, 2.0))))
@njit
def function_as_argument(a, b):
    return integrate(gaussian, a, b, 6) + integrate(math.sin, a, b, 4)


@example(lambda rng: ((float(rng.normal()), float(rng.normal())), float(rng.normal())))
@njit
def tuple_argument(pair, y):
    a, b = pair
    return a * b * y + math.sin(a)


@example(lambda rng: (float(rng.normal()), float(rng.normal())))
@njit
def tuples_inside(x, y):
    state = (x, y)
    for i in range(4):
        state = (state[0] * 0.9 + 0.1 * state[1], math.sin(state[0]) - 0.05 * i)
    return state[0] * state[1]


@example(lambda rng: (rng.normal(size=3), rng.normal(size=3)))
@njit
def tuple_of_arrays_inside(x, y):
    pair = (x, y)
    s = 0.0
    for i in range(3):
        s += pair[0][i] * pair[1][i] ** 2
    return s


@njit
def cross(a, b):
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


@example(lambda rng: (rng.normal(size=3), rng.normal(size=3)))
@njit
def cross_products(a, b):
    c = cross(a, b)
    d = cross(c, a)
    return d[0] * c[2] + d[1] * b[0] - d[2]


@njit
def rosenbrock_term(a, b):
    return 100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2


@example(lambda rng: (rng.normal(size=6),))
@njit
def callee_in_loop(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += rosenbrock_term(x[i], x[i + 1])
    return s


@njit
def while_callee(a):
    x = a
    while abs(x * x - a) > 1e-13:
        x = 0.5 * (x + a / x)
    return x


@example(lambda rng: (rng.uniform(0.5, 4.0, size=5),))
@njit
def callee_with_while_in_loop(x):
    s = 0.0
    for v in x:
        s += while_callee(v) * v
    return s


@example(lambda rng: (rng.uniform(0.5, 2.0, size=4),))
@njit
def callee_with_branches(x):
    s = 0.0
    for v in x:
        s += piecewise(v) * s + v
    return s


@njit
def piecewise(v):
    if v < 0.8:
        return v * v
    if v > 1.5:
        return math.log(v)
    return 0.5


@njit(inline="always")
def inlined(x, y):
    return x * y + math.cos(x)


@example(lambda rng: (float(rng.normal()), float(rng.normal())))
@njit
def inline_always_callee(x, y):
    return inlined(x, y) * inlined(y, x)


@example(lambda rng: (float(rng.normal()), True))
@njit
def bool_and_none_arguments(x, flag, missing=None):
    r = x * x
    if flag:
        r = r * x
    if missing is None:
        r += math.sin(x)
    return r


@example(lambda rng: (float(rng.uniform(0.3, 1.0)), "cubic"))
@njit
def string_argument(x, kind):
    if kind == "cubic":
        return x**3
    return x**2
