"""Special functions by series, continued fractions and recurrences, and what is built on them."""

import math

import numpy as np
from numba import njit

from programs import example


@example(lambda rng: (1.5 + rng.uniform(), rng.uniform(0.5, 6.0)))
@njit
def incomplete_gamma(a, x):
    """A series on one side, Lentz's continued fraction on the other."""
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1.0:
        n, term = a, 1.0 / a
        total = term
        while True:
            n += 1.0
            term *= x / n
            total += term
            if abs(term) < abs(total) * 1e-15:
                return total * scale
    b = x + 1.0 - a
    c = 1e300
    d = 1.0 / b
    h = d
    for i in range(1, 1000):
        an = -i * (i - a)
        b += 2.0
        d = 1.0 / (an * d + b)
        c = b + an / c
        h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return 1.0 - scale * h


@example(lambda rng: (rng.uniform(1.0, 5.0), 3))
@njit
def bessel_backwards(x, n):
    """Miller's recurrence; powers of two keep it in range."""
    start = 2 * ((n + int(math.sqrt(40.0 * (n + 1)))) // 2)
    above, here, total, result = 0.0, 1.0, 0.0, 0.0
    for j in range(start, 0, -1):
        above, here = here, j * (2.0 / x) * here - above
        _, exponent = math.frexp(here)
        if exponent > 10:
            above, here = math.ldexp(above, -exponent), math.ldexp(here, -exponent)
            total, result = math.ldexp(total, -exponent), math.ldexp(result, -exponent)
        if j % 2 == 1:
            total += here
        if j == n:
            result = above
    return result / (2.0 * total - here)


@example(lambda rng: (np.float32(rng.uniform(0.1, 50.0)), rng.normal()))
@njit
def mantissas(x, y):
    m, e = math.frexp(x)
    p, k = math.frexp(y)
    zero, _ = math.frexp(0.0 * y)
    return m * m * e + math.ldexp(p, k + 2) * p + zero


@njit
def basis(i, k, knots, x):
    if k == 0:
        return 1.0 if knots[i] <= x < knots[i + 1] else 0.0
    left, right = 0.0, 0.0
    if knots[i + k] != knots[i]:
        left = (x - knots[i]) / (knots[i + k] - knots[i]) * basis(i, k - 1, knots, x)
    if knots[i + k + 1] != knots[i + 1]:
        span = knots[i + k + 1] - knots[i + 1]
        right = (knots[i + k + 1] - x) / span * basis(i + 1, k - 1, knots, x)
    return left + right


@example(
    lambda rng: (
        np.array([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0]),
        rng.normal(size=5),
        rng.uniform(0.1, 2.9, size=3),
    ),
    const=("knots",),
    seeds=1,
)
@njit
def b_spline(knots, c, xs):
    s = 0.0
    for x in xs:
        value = 0.0
        for i in range(len(c)):
            value += c[i] * basis(i, 2, knots, x)
        s += value * value
    return s


@example(lambda rng: (1.0 + 0.1 * rng.uniform(), 0.3, *rng.uniform(0.2, 1.4, size=3), 5.0), seeds=2)
@njit
def orbit(a, e, inclination, node, pericentre, t):
    """Kepler's equation by Newton; angles brought back into range."""
    mean = np.fmod(t / math.sqrt(a**3), 2 * math.pi)
    anomaly = mean
    while True:
        step = (anomaly - e * math.sin(anomaly) - mean) / (1 - e * math.cos(anomaly))
        anomaly -= step
        if abs(step) < 1e-14:
            break
    half = anomaly / 2
    true = 2 * math.atan2(math.sqrt(1 + e) * math.sin(half), math.sqrt(1 - e) * math.cos(half))
    r = a * (1 - e * math.cos(anomaly))
    u = pericentre + true
    if u > math.pi:
        u -= 2 * math.pi
    cu, su = math.cos(u), math.sin(u)
    x = r * (math.cos(node) * cu - math.sin(node) * su * math.cos(inclination))
    z = r * math.sin(inclination) * su
    return x * x + math.hypot(x, z) + math.copysign(u, x)
