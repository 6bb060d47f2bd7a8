"""The memory of the process: when garbage is collected, and whether freed memory is returned."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

_NEW_OBJECTS = 50_000  # the threshold of generation 0; Python's default is 700 to 2,000

# Of blocks larger than 32 MiB, with header and alignment, glibc learns nothing (64 bits).
_LARGEST_BLOCK = (32 << 20) - (64 << 10)

_lock = threading.Lock()
_outside: list[tuple[int, int, int]] = []
"""The usual thresholds, once for each `few_collections` in progress, in whatever thread."""


@contextmanager
def few_collections() -> Generator[None]:
    """Make Python collect garbage less often. What runs here creates many objects and keeps most of
    them, so full collections, which go through all of Numba, would take time and free next to
    nothing. Of several threads that are here at once, the last restores the thresholds.
    """
    with _lock:
        _outside.append(_outside[0] if _outside else gc.get_threshold())
        new_objects, *others = _outside[0]
        if new_objects:
            gc.set_threshold(max(new_objects, _NEW_OBJECTS), *others)
    try:
        yield
    finally:
        with _lock:
            thresholds = _outside.pop()
            if not _outside:
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
