"""Moves of items within reflected lists, for the AD target: one by one.

Numba moves them as bytes (`pop(0)`, `insert`, `del`, slices, `sort` with a key). In a copy of bytes
the engine cannot tell floats from integers and pointers.

Gives       `install()`: for this target; other targets keep Numba's own code
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.cpython import listobj

from activerules.numba_ext.codegen.unoptimised import AD_TARGET

_OF_ONE_TYPE = (ir.FloatType, ir.DoubleType, ir.IntType)


@functools.cache
def install() -> None:
    """Patch Numba's method for the AD target; called once per process."""
    instance: Any = listobj.ListInstance
    original = instance.move

    def move(self: Any, dest_idx: Any, src_idx: Any, count: Any) -> None:
        item = self._context.get_value_type(self.dtype)
        if self._context.target_name != AD_TARGET or isinstance(item, _OF_ONE_TYPE):
            original(self, dest_idx, src_idx, count)
            return
        builder = self._builder
        last = builder.sub(count, count.type(1))
        is_down = builder.icmp_signed("<", dest_idx, src_idx)
        with cgutils.for_range(builder, count) as loop:
            k = builder.select(is_down, loop.index, builder.sub(last, loop.index))
            source, target = (self._gep(builder.add(at, k)) for at in (src_idx, dest_idx))
            builder.store(builder.load(source), target)
        self.set_dirty(True)

    instance.move = move
