"""Items of lists and tuples, each moved or read as what it is, for the AD target.

Numba moves the items of reflected lists as bytes (`pop(0)`, `insert`, `del`, slices, `sort` with a
key): in a copy of bytes the engine cannot tell floats from integers and pointers. Here they are
moved one by one.

The body of a loop over `literal_unroll` of a tuple is compiled once for each type. Numba reads the
entry by a switch with a case for every entry, those of other types too, of which it reads the bytes
as if they had the type of the version. These cases never run, but in them a float becomes an
integer, and the engine would have to refuse it. Here they do not exist.

Gives       implementations in `LOWERING`; for lists Numba's own, with a list class that moves
            typed items
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import builtin_registry, impl_ret_borrowed
from numba.cpython import listobj

from activerules.numba_ext.codegen.protocols import Builder, Context, Value
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


@LOWERING.lower("typed_getitem", types.BaseTuple, types.Any)
def _entry(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    (kinds, _), wanted = sig.args, sig.return_type
    entries, index = args
    outside, end = (builder.append_basic_block(f"typed_switch.{x}") for x in ("else", "end"))
    switch = builder.switch(index, outside)
    with builder.goto_block(outside):
        message = ("tuple index out of range",)
        context.call_conv.return_user_exc(builder, IndexError, message)
    with builder.goto_block(end):
        result = builder.phi(context.get_value_type(wanted))
    for i, kind in enumerate(kinds):
        if context.typing_context.unify_types(kind, wanted) != wanted:
            continue
        case = builder.append_basic_block(f"typed_switch.{i}")
        for key in (i, i - len(kinds)):
            switch.add_case(context.get_constant(types.intp, key), case)
        with builder.goto_block(case):
            entry = context.cast(builder, builder.extract_value(entries, i), kind, wanted)
            result.add_incoming(entry, builder.block)
            builder.branch(end)
    builder.position_at_end(end)
    return impl_ret_borrowed(context, builder, wanted, result)
