"""The regions of memory in a value, in the IR of the caller: arrays, records, instances, and typed
lists and dictionaries; those in tuples and in fields of instances too.

Needs       an argument, and LLVM values of it (the primal, its shadows)
Gives       `regions_of`: the same region of each of the values; `extent_of_region`: its bytes;
            `data_of_region`: where it begins
Invariants  G1  a region without numbers is given of the primal alone
            G2  the fields of a Const instance are no regions: they may be anywhere
            G3  a list or dictionary is one region: what is in it is known at run time
                (`Visit.entries`), as far as it has a shadow
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numba.core import cgutils, types

from activerules.values.argument import ArgumentSpec
from activerules.values.contents import memory_of
from activerules.values.extents import Extent, extent_of
from activerules.values.layout import Array, Items, Node, Struct, layout_of
from activerules.values.memory_layout import struct_type
from activerules.values.walk import Depth, Emit, walk


def regions_of(
    em: Emit, argument: ArgumentSpec, values: Sequence[Any]
) -> Iterator[tuple[ArgumentSpec, tuple[Any, ...]]]:
    """The regions of an argument, each with what every one of `values` has there; the first is the
    primal.
    """
    has_shadows = len(values) > 1
    depth = Depth.FIELDS if has_shadows else Depth.TUPLES
    for visit in walk(em, layout_of(argument.numba_type), values, depth=depth, where=has_regions):
        node = visit.node
        if is_region(node) and (has_shadows or not isinstance(node, Items)):
            own = visit.slots if node.has_shadow else visit.slots[:1]
            yield argument.part(visit.path, node), tuple(slot.value for slot in own)


def has_regions(node: Node) -> bool:
    """Whether it is a region, or a tuple with one."""
    return is_region(node) or (
        node.is_tuple and any(has_regions(part) for _, part in node.children)
    )


def is_region(node: Node) -> bool:
    """Whether a value is, or refers to, memory of its own."""
    if isinstance(node, Items):
        return node.has_shadow
    return isinstance(node, Array) or (isinstance(node, Struct) and not node.is_tuple)


def extent_of_region(em: Emit, found: Any, value: Any) -> Extent:
    """The bytes of a region."""
    context, builder = em.context, em.builder
    if isinstance(found, types.Array):
        return extent_of(builder, found, context.make_array(found)(context, builder, value))
    pointer = data_of_region(em, found, value)
    data = builder.ptrtoint(pointer, cgutils.intp_t)
    is_record = isinstance(found, types.Record)
    size = found.size if is_record else context.get_abi_sizeof(struct_type(found))
    is_set = cgutils.is_not_null(builder, pointer)
    size = builder.select(is_set, data.type(size), data.type(0))
    return Extent(data, data, builder.add(data, size))


def data_of_region(em: Emit, found: Any, value: Any) -> Any:
    """The pointer a region begins at; null for a field that is not set."""
    if isinstance(found, types.Array):
        return em.context.make_array(found)(em.context, em.builder, value).data
    if isinstance(found, types.Record):
        return value
    return memory_of(em.context, em.builder, found, value)
