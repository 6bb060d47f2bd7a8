"""Indices of broadcast arrays in ufunc loops for the AD target: selected, not kept in variables.

If a dimension has length one, Numba does not update the array's index in it. So the index is a
variable carried by all surrounding loops, which the tape would store in every iteration. Here the
index is the loop's if the dimension is longer than one, and else 0, which is equivalent.

Gives       `install()`: for this target; other targets keep Numba's own code

This is the only patch of Numba's own objects: the lowering of array expressions finds the class
that makes the loop in Numba's module, by name, and offers no hook per target.
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
