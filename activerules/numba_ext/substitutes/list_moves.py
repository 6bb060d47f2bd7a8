"""Moves of items within reflected lists, for the AD target: item by item.

Numba moves bytes (`pop(0)`, `insert`, `del`, slices, `sort` with a key). In a copy of bytes the
engine cannot tell floats from integers and pointers.

Gives       implementations in `LOWERING`: Numba's own, with a list class that moves typed items
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.imputils import builtin_registry
from numba.cpython import listobj

from activerules.numba_ext.codegen.unoptimised import LOWERING

_OF_ONE_TYPE = (ir.FloatType, ir.DoubleType, ir.IntType)


class _List(listobj.ListInstance):
    """A list in the program being lowered."""

    def move(self, dest_idx: Any, src_idx: Any, count: Any) -> None:
        """Move `count` items from `src_idx` to `dest_idx`; the two ranges may overlap."""
        own: Any = self
        builder = own._builder
        if isinstance(own._context.get_value_type(own.dtype), _OF_ONE_TYPE):
            super().move(dest_idx, src_idx, count)
            return
        last = builder.sub(count, count.type(1))
        is_down = builder.icmp_signed("<", dest_idx, src_idx)
        with cgutils.for_range(builder, count) as loop:
            k = builder.select(is_down, loop.index, builder.sub(last, loop.index))
            source, target = (own._gep(builder.add(at, k)) for at in (src_idx, dest_idx))
            builder.store(builder.load(source), target)
        own.set_dirty(True)


def _with_own_list(numbas: Callable[..., Any]) -> Callable[..., Any]:
    """An implementation of Numba's, with `_List` for the global name `ListInstance`."""
    return FunctionType(numbas.__code__, {**numbas.__globals__, "ListInstance": _List})


for _numbas, _function, _arguments in builtin_registry.functions:
    if _numbas.__globals__ is vars(listobj) and "move" in _numbas.__code__.co_names:
        LOWERING.lower(_function, *_arguments)(_with_own_list(_numbas))
