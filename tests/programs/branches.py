"""Scalar expressions and branches: what is taken depends on the data."""

import math

import numpy as np
from numba import njit

from programs import example


def normals(count):
    return lambda rng: tuple(map(float, rng.normal(size=count)))


def positives(count):
    return lambda rng: tuple(map(float, rng.uniform(0.5, 2.0, size=count)))


@example(normals(2))
@njit
def polynomial_of_two(x, y):
    return x * x * y - 3.0 * x + y * y * y / (1.0 + x * x)


@example(positives(2))
@njit
def transcendental(x, y):
    return math.exp(-x) * math.sin(y) + math.log(x + y) ** 2 - math.sqrt(x * y) + x**y


@example(positives(3))
@njit
def libm_zoo(x, y, z):
    a = math.tan(0.3 * x) + math.atan2(y, z) + math.hypot(x, y)
    b = math.asin(0.2 * x) + math.acos(0.3 * y) + math.atan(z)
    c = math.sinh(x) - math.cosh(0.5 * y) + math.tanh(z)
    d = math.asinh(x) + math.acosh(1.5 + y) + math.atanh(0.3 * z)
    e = math.expm1(x) + math.log1p(y) + math.log2(z) + math.log10(x)
    f = math.erf(x) + math.erfc(y) + math.exp(z)
    return a * b + c * d - e * f


@example(normals(1))
@njit
def if_else(x):
    if x > 0.0:
        return x * x
    return -math.sin(x)


@example(normals(2))
@njit
def if_without_else(x, y):
    r = x * y
    if x < y:
        r = r + math.sin(x) * y
    return r * r


@example(normals(3))
@njit
def elif_chain(x, y, z):
    if x < y and y < z:
        r = x * y * z
    elif x < y or y < z:
        r = x + y * math.exp(-z * z)
    elif not z > 0.5:
        r = math.cos(x * y)
    else:
        r = z
    return r + x


@example(normals(2))
@njit
def nested_if(x, y):
    if x > 0.0:
        if y > 0.0:
            r = x * y
        else:
            r = x - y * y
    else:
        r = x * x * x
        if y > x:
            r *= y
    return r


@example(normals(2))
@njit
def conditional_expression(x, y):
    return (x if x > y else y) * (x * x if x * y > 0 else y)


@example(normals(3))
@njit
def min_max_abs(x, y, z):
    return max(x, y, z) * min(x, y) + abs(x - z) * max(0.0, y) - min(z, 0.1)


@example(normals(2))
@njit
def clipped(x, y):
    return min(max(x * y, -0.8), 0.9) + math.fabs(y) * math.copysign(x, y)


@example(normals(2))
@njit
def one_sided_assignment(x, y):
    scale = 1.0
    if x > 0.0:
        scale = y
        offset = x * y
    else:
        offset = -x
    return scale * x + offset


@example(normals(2))
@njit
def boolean_flag(x, y):
    positive = x > 0.0
    r = y * y
    if positive:
        r = r * x
    flag = positive and y > 0.0
    if not flag:
        r += math.sin(y)
    return r


@example(normals(2))
@njit
def flag_as_number(x, y):
    return x * (y > 0.0) + y * y * (x < y)


@example(normals(2))
@njit
def early_returns(x, y):
    if x > 1.0:
        return x * y
    if y > 0.5:
        return math.exp(y) * x
    if x + y < -1.0:
        return x
    return x * x + y * y


@example(normals(1))
@njit
def value_of_one_branch_is_constant(x):
    r = 2.0 if x > 0.3 else x * x
    return r * x


@example(normals(2))
@njit
def swapped(x, y):
    if x < y:
        x, y = y, x
    return x * x * y


@example(normals(2))
@njit
def floors_and_remainders(x, y):
    whole = math.floor(3.0 * x)
    return (3.0 * x - whole) * y + math.trunc(y) * x + math.ceil(x) * y * y


@example(lambda rng: (float(rng.uniform(1, 4)), float(rng.uniform(0.3, 0.8))))
@njit
def modulo(x, y):
    return (x % y) * x + (-x) % y


@example(lambda rng: (float(rng.normal()), int(rng.integers(0, 4))))
@njit
def switch_on_integer(x, kind):
    if kind == 0:
        return x
    elif kind == 1:
        return x * x
    elif kind == 2:
        return math.sin(x)
    return math.exp(x)


@example(positives(1))
@njit
def integer_powers(x):
    return x**2 + x**3 - x**-2 + 2.0**x + x**0.5 + x**7


@example(normals(1))
@njit
def unused_result(x):
    dead = math.exp(x) * 7.0
    dead += x
    return 3.0 * x


@example(normals(1))
@njit
def independent_of_input(x):
    return 2.5


@example(normals(1))
@njit
def identity(x):
    return x


@example(normals(1))
@njit
def negated(x):
    return -x


@example(normals(2))
@njit
def shared_subexpressions(x, y):
    s = math.sin(x * y)
    t = s * s
    return t * s + t / (1.0 + t) + s * x


@example(positives(2))
@njit
def gamma_functions(x, y):
    return math.lgamma(x + 1.0) * y + math.gamma(y + 0.5) * x


@example(normals(2))
@njit
def numpy_scalars(x, y):
    return np.exp(-x * x) * np.sin(y) + np.sqrt(1.0 + y * y) + np.maximum(x, y) + np.square(x)
