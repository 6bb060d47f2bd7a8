"""A program per kind of value: the rows of docs/values.md.

Every value is made of three numbers a₀, a₁ and b, and every program is the same: `use` is
(a₀ b + a₁²) y², and `make` gives the value with a₀ = x₀ y, a₁ = x₁ x₂ and b = x₂². `push` and
`pull` are their reverses, written by hand, for rules.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numba import float64, njit, typed
from numba.experimental import jitclass

ROW = np.dtype([("a", np.float64, 2), ("b", np.float64)])


@jitclass([("a", float64[::1]), ("b", float64)])
class Pair:
    def __init__(self, a, b):
        self.a = a
        self.b = b


@njit
def use_tuple(v, y):
    a, m = v
    return (a[0] * m[0, 0] + a[1] ** 2) * y**2


@njit
def use_record(v, y):
    return (v.a[0] * v.b + v.a[1] ** 2) * y**2


@njit
def use_object(v, y):
    return (v.a[0] * v.b + v.a[1] ** 2) * y**2


@njit
def use_list(v, y):
    return (v[0][0] * v[1][0] + v[0][1] ** 2) * y**2


@njit
def use_dict(v, y):
    return (v["a"][0] * v["b"][0] + v["a"][1] ** 2) * y**2


@njit
def use_optional(v, y):
    if v is None:
        return y
    return (v[0] * v[2] + v[1] ** 2) * y**2


@njit
def make_tuple(x, y):
    return np.array([x[0] * y, x[1] * x[2]]), np.array([[x[2] ** 2]])


@njit
def make_record(x, y):
    x[0].a[0] *= y
    x[0].a[1] *= x[0].b
    x[0].b **= 2
    return x[0]


@njit
def make_object(x, y):
    return Pair(np.array([x[0] * y, x[1] * x[2]]), x[2] ** 2)


@njit
def make_list(x, y):
    return typed.List([np.array([x[0] * y, x[1] * x[2]]), np.array([x[2] ** 2])])


@njit
def make_dict(x, y):
    v = typed.Dict()
    v["a"] = np.array([x[0] * y, x[1] * x[2]])
    v["b"] = np.array([x[2] ** 2])
    return v


@njit
def make_optional(x, y):
    return np.array([x[0] * y, x[1] * x[2], x[2] ** 2]) if y > 0.0 else None


# --- by hand, for rules ---


@njit
def through_use(a, b, y, bar):
    """The derivatives of `use` times the cotangent of its result: by a₀, a₁, b and y."""
    s = y**2 * bar
    return b * s, 2.0 * a[1] * s, a[0] * s, 2.0 * y * (a[0] * b + a[1] ** 2) * bar


@njit
def through_make(x, dx, y, a0_bar, a1_bar, b_bar):
    """Adds to the shadow of x, and returns the derivative by y."""
    dx[0] += y * a0_bar
    dx[1] += x[2] * a1_bar
    dx[2] += x[1] * a1_bar + 2.0 * x[2] * b_bar
    return x[0] * a0_bar


@njit
def push_tuple(v, dv, y, bar):
    a0_bar, a1_bar, b_bar, y_bar = through_use(v[0], v[1][0, 0], y, bar)
    dv[0][0] += a0_bar
    dv[0][1] += a1_bar
    dv[1][0, 0] += b_bar
    return y_bar


@njit
def push_fields(v, dv, y, bar):
    a0_bar, a1_bar, b_bar, y_bar = through_use(v.a, v.b, y, bar)
    dv.a[0] += a0_bar
    dv.a[1] += a1_bar
    dv.b += b_bar
    return y_bar


@njit
def push_list(v, dv, y, bar):
    a0_bar, a1_bar, b_bar, y_bar = through_use(v[0], v[1][0], y, bar)
    dv[0][0] += a0_bar
    dv[0][1] += a1_bar
    dv[1][0] += b_bar
    return y_bar


@njit
def push_dict(v, dv, y, bar):
    a0_bar, a1_bar, b_bar, y_bar = through_use(v["a"], v["b"][0], y, bar)
    dv["a"][0] += a0_bar
    dv["a"][1] += a1_bar
    dv["b"][0] += b_bar
    return y_bar


@njit
def push_optional(v, dv, y, bar):
    if v is None or dv is None:
        return bar
    a0_bar, a1_bar, b_bar, y_bar = through_use(v[:2], v[2], y, bar)
    dv[0] += a0_bar
    dv[1] += a1_bar
    dv[2] += b_bar
    return y_bar


@njit
def pull_tuple(x, dx, y, dv):
    return through_make(x, dx, y, dv[0][0], dv[0][1], dv[1][0, 0])


@njit
def pull_record(x, dx, y, dv):
    raise ValueError("a rule that returns a record does not get here")


@njit
def pull_object(x, dx, y, dv):
    return through_make(x, dx, y, dv.a[0], dv.a[1], dv.b)


@njit
def pull_list(x, dx, y, dv):
    return through_make(x, dx, y, dv[0][0], dv[0][1], dv[1][0])


@njit
def pull_dict(x, dx, y, dv):
    return through_make(x, dx, y, dv["a"][0], dv["a"][1], dv["b"][0])


@njit
def pull_optional(x, dx, y, dv):
    if dv is None:
        return 0.0
    return through_make(x, dx, y, dv[0], dv[1], dv[2])


# --- in Python ---


class Kind:
    """One kind of value.

    title      as the page names it
    use, make, push, pull    compiled, as above
    """

    def __init__(self, title: str, use: Any, make: Any, push: Any, pull: Any) -> None:
        self.title, self.use, self.make, self.push, self.pull = title, use, make, push, pull

    @property
    def text(self) -> str:
        """The two programs, as they are written."""
        both = (inspect.getsource(f.py_func).removeprefix("@njit\n") for f in (self.use, self.make))
        return "\n\n".join(both)

    def of(self, numbers: np.ndarray) -> Any:
        """A new value with these three numbers; as `make` gives it for those that lead there."""
        raise NotImplementedError

    def numbers(self, v: Any) -> np.ndarray:
        """The three numbers in a value."""
        raise NotImplementedError

    def x(self, numbers: np.ndarray) -> Any:
        """A new argument of `make`."""
        return numbers.copy()

    def numbers_in_x(self, x: Any) -> np.ndarray:
        """The three numbers in an argument of `make`."""
        return x

    def rows_by(self, jacobian: Any) -> np.ndarray:
        """A Jacobian by a value, as a matrix."""
        raise NotImplementedError(f"nobody has said how a Jacobian by {self.title} is read")

    def rows_of(self, jacobian: Any) -> np.ndarray:
        """A Jacobian of a value, as a matrix."""
        raise NotImplementedError(f"nobody has said how a Jacobian of {self.title} is read")


class Tuples(Kind):
    def of(self, numbers):
        return numbers[:2].copy(), numbers[2:].reshape(1, 1).copy()

    def numbers(self, v):
        return np.concatenate([v[0], v[1].ravel()])

    def rows_by(self, jacobian):
        return np.concatenate([part.reshape(2, -1) for part in jacobian], axis=1)

    def rows_of(self, jacobian):
        return np.concatenate([part.reshape(-1, 3) for part in jacobian])


class Records(Kind):
    def of(self, numbers):
        return self.x(numbers)[0]

    def numbers(self, v):
        return np.array([*v["a"], v["b"]])

    def x(self, numbers):
        made = np.zeros(1, ROW)
        made["a"], made["b"] = numbers[:2], numbers[2]
        return made

    def numbers_in_x(self, x):
        return self.numbers(x[0])


class Objects(Kind):
    def of(self, numbers):
        return Pair(numbers[:2].copy(), numbers[2])

    def numbers(self, v):
        return np.array([*v.a, v.b])


class Lists(Kind):
    def of(self, numbers):
        return typed.List([numbers[:2].copy(), numbers[2:].copy()])

    def numbers(self, v):
        return np.concatenate(list(v))


class Dicts(Kind):
    def of(self, numbers):
        made = typed.Dict()
        made["a"], made["b"] = numbers[:2].copy(), numbers[2:].copy()
        return made

    def numbers(self, v):
        return np.concatenate([v["a"], v["b"]])


class Optionals(Kind):
    def of(self, numbers):
        return numbers.copy()

    def numbers(self, v):
        return v

    def rows_of(self, jacobian):
        return jacobian


KINDS = (
    Tuples("tuple with arrays", use_tuple, make_tuple, push_tuple, pull_tuple),
    Records("record", use_record, make_record, push_fields, pull_record),
    Objects("object", use_object, make_object, push_fields, pull_object),
    Lists("list", use_list, make_list, push_list, pull_list),
    Dicts("dictionary", use_dict, make_dict, push_dict, pull_dict),
    Optionals("optional", use_optional, make_optional, push_optional, pull_optional),
)
