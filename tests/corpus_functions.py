"""Small functions that between them make Numba emit every kind of IR the engine may meet.

`CORPUS` maps a name to a function and its Numba argument types; most are one NumPy function each,
for it is Numba's implementation of it that is interesting. They are captured, not run.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
from numba import boolean, complex128, float32, float64, from_dtype, int32, int64, njit, types

vector, strided, matrix, cube = float64[::1], float64[:], float64[:, ::1], float64[:, :, ::1]
fortran, integers, singles, complexes = float64[::1, :], int64[::1], float32[::1], complex128[::1]

CORPUS: dict[str, tuple] = {}


def case(*argument_types):
    """Register a function with its argument types."""

    def register(function):
        CORPUS[function.__name__] = (function, argument_types)
        return function

    return register


def _one_liners(table):
    for name, (argument_types, function) in table.items():
        function.__name__ = function.__qualname__ = name
        CORPUS[name] = (function, argument_types)


_one_liners(
    {
        "np_sum": ((vector,), lambda a: np.sum(a)),
        "np_sum_axis": ((matrix,), lambda a: np.sum(a, axis=0)),
        "np_sum_strided": ((strided,), lambda a: a.sum()),
        "np_prod": ((vector,), lambda a: np.prod(a)),
        "np_dot": ((vector, vector), lambda a, b: np.dot(a, b)),
        "np_matvec": ((matrix, vector), lambda a, b: a @ b),
        "np_matmul": ((matrix, fortran), lambda a, b: a @ b),
        "np_dot_complex": ((complexes, complexes), lambda a, b: np.vdot(a, b)),
        "np_solve": ((matrix, vector), lambda a, b: np.linalg.solve(a, b)),
        "np_inv": ((matrix,), lambda a: np.linalg.inv(a)),
        "np_det": ((matrix,), lambda a: np.linalg.det(a)),
        "np_slogdet": ((matrix,), lambda a: np.linalg.slogdet(a)),
        "np_cholesky": ((matrix,), lambda a: np.linalg.cholesky(a)),
        "np_eigh": ((matrix,), lambda a: np.linalg.eigh(a)),
        "np_svd": ((matrix,), lambda a: np.linalg.svd(a)),
        "np_qr": ((matrix,), lambda a: np.linalg.qr(a)),
        "np_norm": ((vector,), lambda a: np.linalg.norm(a)),
        "np_sort": ((vector,), lambda a: np.sort(a)),
        "np_argsort": ((vector,), lambda a: np.argsort(a)),
        "np_median": ((vector,), lambda a: np.median(a)),
        "np_cumsum": ((vector,), lambda a: np.cumsum(a)),
        "np_diff": ((vector,), lambda a: np.diff(a)),
        "np_concatenate": ((vector, vector), lambda a, b: np.concatenate((a, b))),
        "np_stack": ((vector, vector), lambda a, b: np.stack((a, b))),
        "np_interp": ((vector, vector, vector), lambda x, a, b: np.interp(x, a, b)),
        "np_where": ((vector, vector), lambda a, b: np.where(a > b, a, 0.5 * b)),
        "np_clip": ((vector,), lambda a: np.clip(a, -1.0, 1.0)),
        "np_searchsorted": ((vector, vector), lambda a, v: np.searchsorted(a, v)),
        "np_mean_var": ((matrix,), lambda a: a.mean() / a.var()),
        "np_std": ((vector,), lambda a: np.std(a)),
        "np_max": ((vector,), lambda a: a.max() - np.min(a)),
        "np_argmax": ((vector,), lambda a: np.argmax(a)),
        "np_outer": ((vector, vector), lambda a, b: np.outer(a, b)),
        "np_kron": ((matrix, matrix), lambda a, b: np.kron(a, b)),
        "np_trace": ((matrix,), lambda a: np.trace(a)),
        "np_cross": ((vector, vector), lambda a, b: np.cross(a, b)),
        "np_trapezoid": ((vector, float64), lambda a, dx: np.trapezoid(a, dx=dx)),
        "np_convolve": ((vector, vector), lambda a, b: np.convolve(a, b)),
        "np_roll": ((vector,), lambda a: np.roll(a, 2)),
        "np_flip": ((matrix,), lambda a: np.flipud(a).T.copy()),
        "np_reshape": ((matrix,), lambda a: a.reshape(a.size)),
        "np_ravel": ((strided,), lambda a: a.ravel()),
        "np_transpose": ((cube,), lambda a: a.transpose(2, 0, 1).sum()),
        "np_tile": ((vector,), lambda a: np.repeat(a, 3)),
        "np_unique": ((vector,), lambda a: np.unique(a)),
        "np_histogram": ((vector,), lambda a: np.histogram(a, 5, (0.0, 1.0))[0]),
        "np_bincount": ((integers, vector), lambda k, w: np.bincount(k, w)),
        "np_linspace": ((float64, float64, int64), lambda a, b, n: np.linspace(a, b, n)),
        "np_arange": ((int64,), lambda n: np.arange(n) * 0.5),
        "np_eye": ((int64,), lambda n: np.eye(n)),
        "np_full": ((int64, float64), lambda n, x: np.full((n, n), x)),
        "np_nansum": ((vector,), lambda a: np.nansum(a)),
        "np_allclose": ((vector, vector), lambda a, b: np.allclose(a, b)),
        "np_broadcast": ((matrix, vector), lambda a, b: a * b + np.exp(-a)),
        "np_single": ((singles,), lambda a: np.tanh(a) * np.float32(0.1)),
        "np_ufuncs": (
            (vector,),
            lambda a: np.logaddexp(a, np.hypot(a, 1.0)) + np.arctan2(a, 2.0) + np.cbrt(a),
        ),
        "np_power": ((vector, vector), lambda a, b: a**b + a**2 + a**-1),
        "np_floor_divide": ((vector,), lambda a: a // 0.3 + a % 0.3 + np.floor(a)),
        "np_complex": ((complexes,), lambda a: np.abs(a) + (a * a.conjugate()).real),
        "np_random": ((int64,), lambda n: np.random.normal(0.0, 1.0, n)),
        "np_shuffle": ((vector,), lambda a: np.random.shuffle(a)),
        "np_index": ((vector, integers), lambda a, k: a[k]),
        "np_mask": ((vector,), lambda a: a[a > 0.0]),
        "np_slices": ((matrix,), lambda a: a[1:-1, ::2] - a[:-2, ::2]),
        "np_views": ((vector,), lambda a: a.view(np.int64)),
        "np_polyval": ((matrix,), lambda a: np.triu(a) + np.diag(np.diag(a))),
        "scalar_math": (
            (float64, float64),
            lambda x, y: (
                math.lgamma(x) + math.erf(y) * math.gamma(x) + math.atan2(x, math.ldexp(y, 2))
            ),
        ),
        "scalar_single": ((float32,), lambda x: math.sin(x) + math.expm1(x) + math.hypot(x, x)),
        "scalar_complex": ((complex128,), lambda z: cmath.exp(z) / (z + 1j)),
        "integer_arithmetic": ((int64, int32), lambda a, b: (a // b) ^ (a % b) | (a << 3) & ~b),
        "int_to_float": ((int64, boolean), lambda a, b: float(a) ** 3 if b else a / 7),
    }
)


@case(vector)
def loop_sum(a):
    total = 0.0
    for x in a:
        total += x * x
    return total


@case(vector, float64)
def while_loop(a, tolerance):
    x, steps = a[0], 0
    while abs(x * x - a[1]) > tolerance and steps < 100:
        x, steps = 0.5 * (x + a[1] / x), steps + 1
    return x


@case(matrix, matrix)
def nested_loops(a, out):
    n, m = a.shape
    for i in range(1, n - 1):
        for j in range(m):
            if a[i, j] > 0:
                out[i, j] = math.exp(-a[i - 1, j]) * a[i + 1, j]
            else:
                continue


@case(vector)
def raises_value_error(a):
    if a.size == 0:
        raise ValueError("empty")
    if a[0] < 0:
        raise ValueError("negative", a[0])
    return a[-1]


@case(vector)
def catches_errors(a):
    try:
        if a[0] > 1.0:
            raise ValueError("large")
        result = a[0]
    except Exception:
        result = 0.0
    return result


@njit
def helper(x, y=2.0):
    return math.sin(x) * y


@case(float64)
def calls_helper(x):
    return helper(x) + helper(x, 3.0) + helper(x, y=x)


@njit((float64, int64))
def _recursive(x, n):
    return x if n <= 0 else _recursive(x * 0.5, n - 1) + x


@case(float64, int64)
def calls_recursive(x, n):
    return _recursive(x, n)


@case(vector)
def tuples(a):
    p = (a[0], a[1], 3)
    q = (p[1], p)
    return q[1][0] * q[0] + p[2]


@case(int64)
def lists(n):
    values = [0.5]
    for k in range(n):
        values.append(values[-1] * k)
    values.reverse()
    return np.array(values)


@case(vector)
def closure(a):
    scale = a[0]

    def inner(x):
        return scale * x

    return inner(a[1]) + inner(a[2])


@case(vector, types.optional(float64))
def optional_argument(a, x):
    if x is None:
        return a[0]
    return a[0] * x


@case(types.unicode_type)
def strings(s):
    return len(s + "x")


@case(vector)
def prints(a):
    print("first", a[0], a.size)
    return a[0]


@case(types.UniTuple(vector, 2))
def tuple_of_arrays(pair):
    total = 0.0
    for a in pair:
        total += a[0]
    return total


@case(vector, integers)
def enumerate_zip(a, k):
    total = 0.0
    for i, (x, j) in enumerate(zip(a, k)):
        total += i * x * j
    return total


@njit(fastmath=True)
def _fast(a):
    total = 0.0
    for x in a:
        total += 1.0 / x
    return total


@case(vector)
def fastmath(a):
    return _fast(a)


@case(vector)
def dict_and_set(a):
    counts = {0: 0.5}
    for k in range(a.size):
        counts[k % 3] = a[k]
    return counts[0] + len({1, 2, a.size})


RECORD = np.dtype([("mass", np.float64), ("charge", np.int32)])


@case(types.Array(from_dtype(RECORD), 1, "C"))
def records(particles):
    total = 0.0
    for p in particles:
        total += p.mass * p.charge
    return total
