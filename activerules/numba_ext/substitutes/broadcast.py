"""Indices of broadcast arrays in ufunc loops for the AD target, as choices instead of memory.

Where an array has one entry along a dimension, Numba leaves its index as it was: a value that
every loop around carries, and that the tape would hold in every iteration. Here the index is the
loop's where the dimension is longer than one, and 0 where it is not, which is the same.

Gives       `install()`: for this target; other targets keep Numba's own code

The only thing of Numba's that is assigned to: what lowers an array expression looks up the function
that makes its loop in Numba's module, by its name, and there is nothing of a target to ask for.
"""

from __future__ import annotations

import functools
from typing import Any

from numba.np import npyimpl

from activerules.numba_ext.codegen.unoptimised import AD_TARGET


@functools.cache
def install() -> None:
    """Patch Numba's method for the AD target; called once per process."""
    helper: Any = npyimpl._ArrayIndexingHelper
    original = helper.update_indices

    def update_indices(self: Any, loop_indices: Any, name: Any) -> None:
        if self.array.context.target_name != AD_TARGET:
            original(self, loop_indices, name)
            return
        builder = self.array.builder
        inner = loop_indices[len(loop_indices) - len(self.indices) :]
        for source, index, length in zip(inner, self.indices, self.array.shape, strict=False):
            is_long = builder.icmp_unsigned(">", length, length.type(1))
            builder.store(builder.select(is_long, source, source.type(0)), index)

    helper.update_indices = update_indices
