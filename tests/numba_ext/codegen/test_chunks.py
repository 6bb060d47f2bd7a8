"""The tape's memory is left from one call to the next, of any derivative, in any thread."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numba.core.registry import cpu_target

import activerules as ar


@njit(nogil=True)
def polynomial(x, c):
    y = 0.0
    for i in range(len(c)):
        y = y * x + c[i]
    return y


@njit(nogil=True)
def shrinking(x, steps):
    while steps > 0:
        x = np.sin(x)
        steps -= 1
    return x


def shared(name):
    engine = cpu_target.target_context.codegen()._engine._ee
    address = engine.get_global_value_address(f"activerules.chunk.{name}")
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_size_t))


def spare():
    return shared("spare")[0]


def gradient(count):
    c = np.ones(count)
    return ar.autodiff(ar.Reverse, polynomial, ar.Active(0.5), ar.Const(c))[0]


def test_one_chunk_serves_all():
    assert abs(gradient(40_000) - 4.0) < 1e-12
    first = spare()
    assert first
    assert abs(gradient(40_000) - 4.0) < 1e-12
    assert spare() == first
    slope = np.prod(np.cos([1.0, np.sin(1.0), np.sin(np.sin(1.0))]))
    assert abs(ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 3)[0] - slope) < 1e-15
    ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 1000)
    assert spare() == first


def test_a_tape_of_many_chunks_becomes_one():
    for _ in range(3):
        ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 200_000)
    first = spare()
    ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 200_000)
    assert spare() == first != 0


def test_a_large_tape_is_given_back():
    gradient(40_000)
    before = spare()
    gradient(9_000_000)
    assert spare() in (0, before)


def test_a_chunk_of_what_is_asked_for_where_there_is_no_room_for_more():
    gradient(40_000)
    wish = shared("wish")
    before = wish[0]
    try:
        wish[0] = 1 << 60
        assert abs(gradient(4_000_000) - 4.0) < 1e-12
    finally:
        wish[0] = before


def test_threads_never_share_one():
    with ThreadPoolExecutor(4) as pool:
        counts = [30_000, 60_000, 90_000] * 30
        assert all(abs(g - 4.0) < 1e-12 for g in pool.map(gradient, counts))
