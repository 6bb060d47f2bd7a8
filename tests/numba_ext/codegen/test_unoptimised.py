"""What the AD target compiles stays as it was lowered, but for functions of Numba's own."""

import re

import numpy as np
from numba import float64, njit

from activerules.numba_ext.target.capture import capture
from activerules.rules.registry import RULES

_DEFINITION = re.compile(r"^define [^@\n]*@\"?(?P<name>[^\"(]+).*?^}$", re.MULTILINE | re.DOTALL)


def _defined(function, *argtypes) -> dict[str, str]:
    """The bodies of the functions of a capture, by name."""
    text = capture(function, argtypes, rules=RULES).text
    return {found["name"]: found[0] for found in _DEFINITION.finditer(text)}


def _of_numba(bodies: dict[str, str], name: str) -> list[str]:
    return [b for n, b in bodies.items() if n.startswith("_ZN5numba") and name in n]


def test_n1_functions_of_numba_without_floats_are_optimised_and_those_of_users_are_not() -> None:
    def repeated(x, y):
        first, second = np.broadcast_arrays(x, y)
        return first * second

    bodies = _defined(repeated, float64[::1], float64[:, ::1])
    shapes = _of_numba(bodies, "broadcast_shapes")
    assert shapes
    assert not any(" alloca i64" in body for body in shapes)  # variables as Numba lowers them
    (own,) = (body for name, body in bodies.items() if "repeated" in name)
    assert " alloca " in own


def test_n1_comparisons_of_floats_are_left_as_they_are() -> None:
    def largest(x):
        return np.nanmax(x)

    found = _of_numba(_defined(largest, float64[::1]), "nan_min_max")
    assert found
    assert all(" alloca " in body and " fcmp " in body for body in found)


def test_n1_addresses_are_computed_from_pointers() -> None:
    """Also in functions of Numba's own, before they are optimised, whatever the release."""

    def joined(x):
        return np.concatenate((x, x))

    bodies = _of_numba(_defined(joined, float64[::1]), "concatenate")
    assert bodies
    assert not any("inttoptr" in body for body in bodies)


def test_n2_generators_of_numba_end() -> None:
    """The status of their end is returned as a constant, and no range that excludes it is promised
    of any function.
    """

    def summed(x):
        total = 0.0
        for v in map(_square, x):
            total += v
        return total

    following = _of_numba(_defined(summed, float64[::1]), "next")
    assert following
    assert all("ret i32 -3" in body for body in following)
    assert not any(" range(i32 " in body for body in _defined(summed, float64[::1]).values())


@njit
def _square(v):
    return v * v
