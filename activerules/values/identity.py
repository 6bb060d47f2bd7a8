"""What tells that the arguments of a reverse are those its tape was made from: visitors of `walk`.

Needs       the tree of an argument, and LLVM values of its primal and its shadows
Gives       `identity_of`: numbers that are the same as long as it is; `identity_of_memory`: one of
            all memory that a value leads to
Invariants  I1  of a primal, where its memory is: what is in it may be written between the sweeps,
                also pointers to other arrays, as the tape holds what the reverse needs
            I2  of a shadow, where all memory is that the reverse adds to, as the tape holds
                addresses in it: an array of a shadow that was replaced, a list that has grown or a
                dictionary with other keys is another shadow
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from activerules.numba_ext.codegen.protocols import Builder
from activerules.values import abi, dict_runtime
from activerules.values.contents import memory_of
from activerules.values.layout import Items, Node, Struct, show
from activerules.values.memory_layout import has_inner
from activerules.values.walk import Depth, Emit, Visit, walk

_SPREAD = 1099511628211  # the prime of the hash of Fowler, Noll and Vo
_COMPARED = frozenset({"float", "int", "data", "size", "itemsize", "shape", "stride"})


def identity_of(
    em: Emit, name: str, node: Node, primal: Any, shadows: Sequence[Any]
) -> Iterator[tuple[str, Any]]:
    """Bits of an argument and of its shadows, with the names of the parts they are of."""
    for visit in walk(em, node, (primal,), depth=Depth.TUPLES):
        for word in _address(em, visit):
            yield name + show(visit.path), word
    for shadow in shadows:
        # what is behind items is mixed in a loop of its own: a name is for what is known here
        for visit in walk(em, node, (shadow,), depth=Depth.FIELDS, where=_leads_to_numbers):
            for word in _words(em, visit):
                yield name + show(visit.path), word
            if isinstance(visit.node, Items) and has_inner(visit.node.numba_type):
                yield name + show(visit.path), identity_of_memory(em, visit.node, visit.values[0])


def identity_of_memory(em: Emit, node: Node, value: Any) -> Any:
    """One number for all memory that a value leads to, behind items too."""
    mixed = cgutils.alloca_once_value(em.builder, cgutils.intp_t(0))
    for visit in walk(em, node, (value,), depth=Depth.ITEMS, where=_leads_to_numbers):
        for word in _words(em, visit):
            both = em.builder.xor(em.builder.load(mixed), word)
            em.builder.store(em.builder.mul(both, word.type(_SPREAD)), mixed)
    return em.builder.load(mixed)


def _leads_to_numbers(node: Node) -> bool:
    return node.has_shadow or (node.is_tuple and node.carried.by_reference)


def _words(em: Emit, visit: Visit) -> Iterator[Any]:
    """Where the memory of a part is (I2), and that of the items of a list or dictionary."""
    yield from _address(em, visit)
    if not isinstance(visit.node, Items):
        return
    found, (value,) = visit.node.numba_type, visit.values
    if visit.node.key is not None:
        data = em.context.make_helper(em.builder, found, value=value).data
        call = dict_runtime.call
        yield call(em.context, em.builder, "fingerprint", cgutils.intp_t, data)
        return
    assert visit.entries is not None
    make = em.context.make_array(visit.entries.array_type)
    array = make(em.context, em.builder, visit.entries.arrays[0])
    yield _bits_of(em.builder, array.data)
    yield array.nitems


def _address(em: Emit, visit: Visit) -> Iterator[Any]:
    """Where a leaf is (I1), or the bits of a number; nothing of what has no identity, as texts."""
    node, builder = visit.node, em.builder
    found = node.numba_type
    if isinstance(found, types.Array | types.Number | types.Boolean):
        slots = em.context.get_arg_packer([found]).as_arguments(builder, [*visit.values])
        for slot, bits in zip(abi.flatten(found), slots, strict=True):
            if slot.role in _COMPARED:
                yield _bits_of(builder, bits)
    elif isinstance(found, types.Record):
        yield _bits_of(builder, visit.values[0])
    elif isinstance(node, Struct) and not node.is_tuple:
        yield _bits_of(builder, memory_of(em.context, builder, found, visit.values[0]))
    elif isinstance(node, Items) and node.has_shadow:
        yield _bits_of(builder, em.context.make_helper(builder, found, value=visit.values[0]).data)


def _bits_of(builder: Builder, value: Any) -> Any:
    """The bits of an LLVM scalar as an i64."""
    kind = value.type
    if isinstance(kind, ir.PointerType):
        return builder.ptrtoint(value, cgutils.intp_t)
    if isinstance(kind, ir.DoubleType):
        return builder.bitcast(value, cgutils.intp_t)
    if isinstance(kind, ir.FloatType):
        value = builder.bitcast(value, cgutils.int32_t)
    return value if value.type == cgutils.intp_t else builder.zext(value, cgutils.intp_t)
