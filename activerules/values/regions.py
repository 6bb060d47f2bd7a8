"""The regions of memory of a value, in the IR of the caller: arrays, records, instances, typed
lists and dictionaries, also those in tuples and in fields of instances.

Needs       an argument, and LLVM values of it (the primal, its shadows)
Gives       `regions_of`: corresponding regions of the values; `extent_of_region`: the bytes of one;
            `data_of_region`: its start
Invariants  G1  for a region without numbers only the primal's is yielded
            G2  a list or dictionary is one region; its items are known at run time only
                (`Visit.entries`)
            G3  the fields of an instance are regions only if it has shadows: what is in a Const
                one is looked for where a program writes (`numba_ext.calls.memory`)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numba.core import cgutils, types

from activerules.numba_ext.codegen.protocols import Emit
from activerules.values.argument import ArgumentSpec
from activerules.values.contents import memory_of
from activerules.values.extents import Extent, extent_of
from activerules.values.layout import Array, Items, Node, Struct, layout_of
from activerules.values.memory_layout import struct_type
from activerules.values.walk import Depth, walk


def regions_of(
    em: Emit, argument: ArgumentSpec, values: Sequence[Any]
) -> Iterator[tuple[ArgumentSpec, tuple[Any, ...]]]:
    """The regions of an argument, each with its value in all of `values`, the first of which is the
    primal.
    """
    has_shadows = len(values) > 1
    depth = Depth.FIELDS if has_shadows else Depth.TUPLES
    for visit in walk(em, layout_of(argument.numba_type), values, depth=depth, where=has_regions):
        node = visit.node
        if is_region(node):
            own = visit.slots if node.has_shadow else visit.slots[:1]
            yield argument.part(visit.path, node), tuple(slot.value for slot in own)


def has_regions(node: Node) -> bool:
    """Whether a value is a region, or a tuple that contains one."""
    return is_region(node) or (
        node.is_tuple and any(has_regions(part) for _, part in node.children)
    )


def is_region(node: Node) -> bool:
    """Whether a value is, or refers to, memory of its own."""
    if isinstance(node, Items):
        return node.has_shadow
    return isinstance(node, Array) or (isinstance(node, Struct) and not node.is_tuple)


def extent_of_region(em: Emit, ty: Any, value: Any) -> Extent:
    """The extent of a region in bytes: that of the array, record or instance, or of the struct of a
    list or dictionary.
    """
    context, builder = em.context, em.builder
    if isinstance(ty, types.Array):
        return extent_of(builder, ty, em.array(ty, value))
    pointer = data_of_region(em, ty, value)
    data = builder.ptrtoint(pointer, cgutils.intp_t)
    is_record = isinstance(ty, types.Record)
    size = ty.size if is_record else context.get_abi_sizeof(struct_type(ty))
    is_set = cgutils.is_not_null(builder, pointer)
    size = builder.select(is_set, data.type(size), data.type(0))
    return Extent(data, data, builder.add(data, size))


def data_of_region(em: Emit, ty: Any, value: Any) -> Any:
    """The pointer to the start of a region; null for a field that is not set."""
    if isinstance(ty, types.Array):
        return em.array(ty, value).data
    if isinstance(ty, types.Record):
        return value
    return memory_of(em, ty, value)
