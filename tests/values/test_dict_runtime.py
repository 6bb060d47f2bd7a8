"""Where typed dictionaries have their entries, as derivatives take it."""

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
from numba import njit, types
from numba.typed import Dict

import activerules as ar
from activerules.values.dict_tables import FIELDS, HEADER

NUMBERS = {7: 0.5, -3: 2.0, 11: 0.25}


def dictionary() -> Dict:
    made = Dict.empty(types.int64, types.float64)
    for key, value in NUMBERS.items():
        made[key] = value
    return made


def integer(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def keys_of(d: Dict) -> int:
    """The address that a dictionary's `keys` has."""
    struct = integer(d._opaque.data)
    assert integer(struct) == len(d)
    return integer(struct + 8)


def header(d: Dict) -> dict[str, int]:
    return {name: integer(keys_of(d) + 8 * k) for k, name in enumerate(FIELDS)}


def entries(d: Dict) -> Iterator[tuple[int, int, float]]:
    """The address, the key and the value of each entry."""
    fields = header(d)
    for k in range(fields["nentries"]):
        at = keys_of(d) + HEADER + fields["entry_offset"] + k * fields["entry_size"]
        value = ctypes.c_double.from_address(at + 8 + fields["key_size"]).value
        yield at, integer(at + 8), value


@njit
def squares(d, x):
    s = 0.0
    for value in d.values():
        s += value * value * x[0]
    return s * d[7]


def differentiate(d: Dict, shadow: Dict) -> None:
    x = ar.Duplicated(np.ones(1), np.zeros(1))
    ar.autodiff(ar.Reverse, squares, ar.Active, ar.Duplicated(d, shadow), x)


def test_dict_tables_k1_the_layout_is_that_of_numba() -> None:
    d = dictionary()
    fields = header(d)
    assert fields["nentries"] == 3
    assert (fields["key_size"], fields["val_size"], fields["entry_size"]) == (8, 8, 24)
    assert [(key, value) for _, key, value in entries(d)] == [*NUMBERS.items()]


def test_dict_tables_k2_entries_begin_at_a_multiple_of_their_size() -> None:
    d, shadow = dictionary(), ar.make_zero(dictionary())
    differentiate(d, shadow)
    for one in (d, shadow):
        fields = header(one)
        assert (HEADER + fields["entry_offset"]) % fields["entry_size"] == 0
        assert [key for _, key, _ in entries(one)] == [*NUMBERS]
    # Numba's own code reads and writes such a dictionary like any other
    d[5] = 8.0
    del d[-3]
    assert dict(d) == {7: 0.5, 11: 0.25, 5: 8.0}


def test_k3_entries_stay_where_they_are() -> None:
    d, shadow = dictionary(), ar.make_zero(dictionary())
    differentiate(d, shadow)  # from here on K2 holds
    before = [[(at, key) for at, key, _ in entries(one)] for one in (d, shadow)]
    differentiate(d, shadow)
    assert [[(at, key) for at, key, _ in entries(one)] for one in (d, shadow)] == before
    assert dict(d) == NUMBERS


@njit
def made(n):
    d = Dict.empty(types.int64, types.float64)
    for k in range(n):
        d[k] = 0.5 * k
    return d


@njit(nogil=True)
def of_first(x, d):
    return x * d[1] + x * d[3]


def test_dict_tables_k4_threads_may_begin_with_one_dictionary_at_once() -> None:
    # a large one: replacing its table takes long enough for all threads to find the old one
    gradient = ar.grad(of_first)
    assert gradient(1.0, made(5)) == 2.0
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            d, together = made(200_000), Barrier(4)
            run = lambda: (together.wait(), gradient(1.0, d))[1]  # noqa: E731
            assert [each.result() for each in [pool.submit(run) for _ in range(4)]] == [2.0] * 4
