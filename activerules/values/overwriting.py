"""Overwrite an array with another one of the same shape.

As `target[...] = source`, but without Numba's error for a source of another shape: compiling the
code that formats its message takes seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload


def overwrite(target: Any, source: Any) -> None:
    """Copy `source` into `target`, an array of the same shape that does not overlap it."""
    target[...] = source


@overload(overwrite)
def _overwrite(target, source):
    if target.ndim == source.ndim == 1:

        def item_by_item(target, source):
            for i in range(target.size):
                target[i] = source[i]

        return item_by_item
    if target.layout == source.layout == "C":

        def in_one_run(target, source):
            to, of = target.reshape(target.size), source.reshape(source.size)
            for i in range(to.size):
                to[i] = of[i]

        return in_one_run

    if target.ndim == source.ndim == 2:
        return _by_rows

    def by_index(target, source):
        for index in np.ndindex(target.shape):
            target[index] = source[index]

    return by_index


def _by_rows(target, source):
    for i in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[i, j] = source[i, j]
