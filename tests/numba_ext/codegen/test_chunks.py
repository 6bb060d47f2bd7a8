"""The tape's memory is left from one call to the next, of any derivative, in any thread."""

import ctypes
import mmap
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

import activerules as ar
from activerules.numba_ext.codegen import chunks
from activerules.pipeline import requests
from tests.ir.harness import compile_text


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


@njit(nogil=True)
def relax(a, b, steps):
    for _ in range(steps):
        a = a + 0.1 * (b - a * a)
    return np.sum(a)


@njit(nogil=True)
def grow(a):
    """Arrays of many sizes, and a row of the tape for each iteration: its length is not known."""
    total = np.sum(a)
    while total < 1e6:
        a = np.concatenate((a, np.sqrt(a)))
        total = total * 1.5 + np.sqrt(total) + np.sum(a)
    return total


def shared(name):
    engine = cpu_target.target_context.codegen()._engine._ee
    address = engine.get_global_value_address(f"activerules.chunk.{name}")
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_size_t))


def spare():
    return shared("spare")[0]


def gradient(count):
    c = np.ones(count)
    return ar.autodiff(ar.Reverse, polynomial, ar.Active(0.5), ar.Const(c))[0]


def test_c1_one_chunk_serves_later_calls():
    assert abs(gradient(40_000) - 4.0) < 1e-12
    first = spare()
    assert first
    assert abs(gradient(40_000) - 4.0) < 1e-12
    assert spare() == first
    slope = np.prod(np.cos([1.0, np.sin(1.0), np.sin(np.sin(1.0))]))
    assert abs(ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 3)[0] - slope) < 1e-15
    ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 1000)
    assert spare() == first


def test_c3_a_tape_of_many_chunks_becomes_one():
    for _ in range(3):
        ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 200_000)
    first = spare()
    ar.autodiff(ar.Reverse, shrinking, ar.Active(1.0), 200_000)
    assert spare() == first != 0


LENT = """
import resource
from pathlib import Path
from numba import njit
import activerules as ar

@njit
def squares(x, steps):
    for i in range(steps):
        x = x * x * 0.5 + 0.1
    return x

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def lent():
    text = Path("/proc/self/smaps_rollup").read_text()
    return int(text.partition("LazyFree:")[2].split()[0]) / 1024

gradient = ar.grad(squares)
slope = gradient(0.3, 36_000_000)
first, before = lent(), faults()
assert gradient(0.3, 36_000_000) == slope
again, fresh = lent(), faults() - before
gradient(0.3, 100_000)
print(first, again, fresh, lent())
"""


def test_c1_the_memory_of_a_large_tape_is_lent_to_the_system():
    """A tape of 288 MB; one of 800 kB takes back what it writes."""
    run = subprocess.run([sys.executable, "-c", LENT], capture_output=True, check=True)
    first, again, fresh, afterwards = map(float, run.stdout.split())
    assert first > 250
    assert again > 250
    assert fresh < 1000
    assert again - 2 < afterwards < again


ADVISED = """
@first = global i64 0
@bytes = global i64 0
@freed = global ptr null
define i32 @madvise(ptr %pages, i64 %bytes, i32 %advice) {
  %first = ptrtoint ptr %pages to i64
  store i64 %first, ptr @first
  store i64 %bytes, ptr @bytes
  ret i32 STATUS
}
define void @free(ptr %chunk) {
  store ptr %chunk, ptr @freed
  ret void
}
define i64 @seen(i64 %which) {
  %is.first = icmp eq i64 %which, 0
  %is.bytes = icmp eq i64 %which, 1
  %first = load i64, ptr @first
  %bytes = load i64, ptr @bytes
  %chunk = load ptr, ptr @freed
  %freed = ptrtoint ptr %chunk to i64
  %other = select i1 %is.bytes, i64 %bytes, i64 %freed
  %found = select i1 %is.first, i64 %first, i64 %other
  ret i64 %found
}
"""


@pytest.mark.parametrize("status", [0, -1])
def test_c1_whole_pages_are_lent_and_what_is_refused_is_freed(status):
    """`madvise` and `free` are replaced by functions that note their arguments."""
    text = chunks.DEFINITION.replace("declare void @free(ptr)", "")
    text = text.replace("declare i32 @madvise(ptr, i64, i32)", "")
    module = compile_text(text + ADVISED.replace("STATUS", str(status)))
    memory = np.zeros((257 << 20) // 8, np.int64)
    chunk, size = memory.ctypes.data + 16, memory.nbytes - 40
    memory[3] = size  # in the second word of the chunk
    module.function("activerules.chunk.old")(chunk, size)
    first, length, freed = map(module.function("seen"), range(3))
    assert first % mmap.PAGESIZE == length % mmap.PAGESIZE == 0
    assert chunk + 32 <= first < chunk + 32 + mmap.PAGESIZE
    assert first + length <= chunk + size < first + length + mmap.PAGESIZE
    assert freed == (chunk if status else 0)


def test_c1_a_larger_tape_is_given_back():
    gradient(40_000)
    before = spare()
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    chunk = libc.malloc(ctypes.c_size_t(64))
    size = (2 << 30) + 8
    ctypes.cast(chunk, ctypes.POINTER(ctypes.c_size_t))[1] = size
    engine = cpu_target.target_context.codegen()._engine._ee
    address = engine.get_function_address("activerules.chunk.old")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(address)(chunk, size)
    assert spare() == before


def test_c3_a_chunk_of_what_is_asked_for_where_there_is_no_room_for_more():
    gradient(40_000)
    wish = shared("wish")
    before = wish[0]
    try:
        wish[0] = 1 << 60
        assert abs(gradient(4_000_000) - 4.0) < 1e-12
    finally:
        wish[0] = before


def test_c2_threads_never_share_a_chunk():
    with ThreadPoolExecutor(4) as pool:
        counts = [30_000, 60_000, 90_000] * 30
        assert all(abs(g - 4.0) < 1e-12 for g in pool.map(gradient, counts))


FRESH_PAGES = """
import resource
import numpy as np
from numba import njit
import activerules as ar

@njit
def relax(a, b):
    for _ in range(10):
        a = a + 0.1 * (b - a * a)
    return np.sum(a)

a, b = np.linspace(0.5, 1.5, 100_000), np.linspace(1.0, 2.0, 100_000)
gradient = ar.grad(relax)
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    gradient(a, b)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_large_arrays_of_a_loop_are_in_memory_of_the_last_call():
    """Twenty arrays of 800 kB are 4,000 pages, each of which costs a fault if it is fresh."""
    run = subprocess.run([sys.executable, "-c", FRESH_PAGES], capture_output=True, check=True)
    assert int(run.stdout) < 1000


def test_rows_and_arrays_of_any_size_share_chunks():
    rng = np.random.default_rng(7)
    a = rng.uniform(1.0, 2.0, 50)
    v = rng.uniform(-1.0, 1.0, 50)
    gradient_of = ar.grad(grow)
    libc = ctypes.CDLL(None)
    libc.free(ctypes.c_void_p(spare()))  # the next tape starts with small chunks
    shared("spare")[0] = shared("wish")[0] = 0
    before = rtsys.get_allocation_stats()
    for _ in range(3):
        slope = gradient_of(a) @ v
        step = 1e-4
        central = (grow(a + step * v) - grow(a - step * v)) / (2 * step)
        assert abs(slope - central) < 1e-5 * abs(central)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free


def test_c2_threads_never_share_arrays():
    with ThreadPoolExecutor(4) as pool:
        sizes = [20_000, 30_000, 40_000] * 8
        a = np.linspace(0.5, 1.5, 40_000)
        b = np.linspace(1.0, 2.0, 40_000)
        gradient_of = ar.grad(relax)
        whole = gradient_of(a, b, 10)
        found = pool.map(lambda n: gradient_of(a[:n], b[:n], 10), sizes)
        assert all(np.array_equal(g, whole[:n]) for g, n in zip(found, sizes, strict=True))


def test_arrays_that_do_not_fit_are_a_memory_error(monkeypatch):
    monkeypatch.setattr(requests, "tape_limit", lambda: 1 << 22)

    @njit
    def relax_again(a, b):
        for _ in range(10):
            a = a + 0.1 * (b - a * a)
        return np.sum(a)

    a = np.linspace(0.5, 1.5, 400_000)  # more than other tests keep a chunk for (C1)
    gradient_of = ar.grad(relax_again)
    with pytest.raises(MemoryError, match="tape"):
        gradient_of(a, a)
    assert np.allclose(gradient_of(a[:100], a[:100]), ar.grad(relax)(a[:100], a[:100], 10))
