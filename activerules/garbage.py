"""Python's garbage collector while modules are loaded and derivatives are made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_NEW_OBJECTS = 50_000  # the threshold of generation 0; Python's default is 700 to 2,000


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
