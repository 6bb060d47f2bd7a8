"""Arguments that steer a program and carry no derivative: optional, enums, strings, slices, dates,
integers of all widths. Optional results, and values of both precisions."""

import enum

import numpy as np
from numba import njit

from programs import example


class Boundary(enum.Enum):
    FIXED = 1
    PERIODIC = 2


class Order(enum.IntEnum):
    FIRST = 1
    SECOND = 2


@example(lambda rng: (rng.normal(size=4), None if rng.integers(2) else rng.normal(size=4)))
@njit
def optional_weights(x, weights=None):
    s = 0.0
    for i in range(len(x)):
        s += x[i] ** 2 if weights is None else weights[i] * x[i]
    return s


@example(lambda rng: (rng.normal(size=5), Boundary(int(rng.integers(1, 3))), Order.SECOND, "mean"))
@njit
def enums_and_strings(x, boundary, order, reduction, scale=0.5):
    s = 0.0
    for i in range(len(x)):
        if boundary == Boundary.FIXED and i == 0:
            continue
        difference = x[i] - x[i - 1]
        s += difference if order == Order.FIRST else difference**2
    return s / len(x) * scale if reduction == "mean" else s


@example(
    lambda rng: (
        rng.normal(size=6),
        slice(1, 6, 2),
        rng.integers(0, 200, size=3).astype(np.uint8),
        rng.integers(0, 2, size=3).astype(np.bool_),
        (np.datetime64("2020-01-05"), np.datetime64("2020-01-01")),
    ),
    seeds=1,
)
@njit
def slices_bytes_and_dates(x, part, counts, mask, dates):
    y = x[part]
    s = 0.0
    for i in range(len(y)):
        s += y[i] if mask[i] and dates[0] > dates[1] else y[i] ** 3
        s += y[i] * counts[i] + (counts[i] & 3) * y[i] ** 2
    return s


@njit
def root_or_nothing(x):
    return np.sqrt(x) if x > 0 else None


@example(lambda rng: (float(rng.normal()), rng.normal(size=3).astype(np.float32)))
@njit
def optional_result_and_both_precisions(x, a):
    total = 0.0
    for v in a:
        total += np.float64(v) * v * x
    root = root_or_nothing(total)
    return np.float32(x) * total if root is None else root
