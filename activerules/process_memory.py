"""The memory of the process: when garbage is collected, and whether freed memory is returned."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Generator
from contextlib import contextmanager

_NEW_OBJECTS = 50_000  # the threshold of generation 0; Python's default is 700 to 2,000

# Of blocks larger than 32 MiB, with header and alignment, glibc learns nothing (64 bits).
_LARGEST_BLOCK = (32 << 20) - (64 << 10)


@contextmanager
def few_collections() -> Generator[None]:
    """Make Python collect garbage less often. What runs here creates many objects and keeps most of
    them, so full collections, which go through all of Numba, would take time and free next to
    nothing.
    """
    thresholds = gc.get_threshold()
    if thresholds[0]:
        gc.set_threshold(max(thresholds[0], _NEW_OBJECTS), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB of freed memory, instead of twice the largest array freed.

    A gradient frees several arrays at its end. Where glibc returns them to the system, the next
    call gets pages that it has to clear, one fault for each, which takes longer than to compute
    what is written there. A program that has freed an array of 32 MiB is spared that, as both of
    glibc's thresholds follow the largest block that was freed; so such a block is freed here. It is
    never written, and takes no memory.

    Nothing happens with other C libraries, nor where a threshold was set (`MALLOC_TRIM_THRESHOLD_`,
    `mallopt`).

    Source   mallopt(3), M_MMAP_THRESHOLD: the dynamic threshold
    """
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", {}):
        return
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    library.free(library.malloc(_LARGEST_BLOCK))
