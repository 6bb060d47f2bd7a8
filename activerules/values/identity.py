"""Identities of arguments, to check that a reverse gets those its tape was made from: visitors of
`walk`.

Needs       the tree of an argument, and LLVM values of its primal and its shadows
Gives       `identity_of`: numbers that are equal for the same argument; `identity_of_memory`: one
            number for all memory reachable from a value
Invariants  I1  a primal is identified by the address of its memory: its contents, pointers to other
                arrays included, may change between the sweeps, as the tape holds what the reverse
                needs
            I2  a shadow is identified by the addresses of all memory the reverse adds to, since the
                tape holds such addresses: a shadow in which an array was replaced, a list has grown
                or a dictionary has other keys is another shadow
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from activerules.numba_ext.codegen.protocols import Builder, Emit
from activerules.values import abi, dict_runtime
from activerules.values.contents import memory_of
from activerules.values.layout import Items, Node, Struct, show
from activerules.values.memory_layout import has_inner
from activerules.values.walk import Depth, Visit, walk

_SPREAD = 1099511628211  # the 64-bit prime of the hash by Fowler, Noll and Vo
_COMPARED = frozenset({"float", "int", "data", "size", "itemsize", "shape", "stride"})


def identity_of(
    em: Emit, name: str, node: Node, primal: Any, shadows: Sequence[Any]
) -> Iterator[tuple[str, Any]]:
    """Bits that identify an argument and its shadows, with the names of the parts."""
    for visit in walk(em, node, (primal,), depth=Depth.TUPLES):
        for word in _address(em, visit):
            yield name + show(visit.path), word
    for shadow in shadows:
        # items are mixed in by a loop of their own: only parts known at compile time have names
        for visit in walk(em, node, (shadow,), depth=Depth.FIELDS, where=_leads_to_numbers):
            for word in _words(em, visit):
                yield name + show(visit.path), word
            if isinstance(visit.node, Items) and has_inner(visit.node.numba_type):
                yield name + show(visit.path), identity_of_memory(em, visit.node, visit.values[0])


def identity_of_memory(em: Emit, node: Node, value: Any) -> Any:
    """One number that identifies all memory reachable from a value, items included."""
    mixed = cgutils.alloca_once_value(em.builder, cgutils.intp_t(0))
    for visit in walk(em, node, (value,), depth=Depth.ITEMS, where=_leads_to_numbers):
        for word in _words(em, visit):
            mixed_word = em.builder.xor(em.builder.load(mixed), word)
            em.builder.store(em.builder.mul(mixed_word, word.type(_SPREAD)), mixed)
    return em.builder.load(mixed)


def _leads_to_numbers(node: Node) -> bool:
    return node.has_shadow or (node.is_tuple and node.carried.by_reference)


def _words(em: Emit, visit: Visit) -> Iterator[Any]:
    """The address of a part's memory (I2), and of the items if it is a list or dictionary."""
    yield from _address(em, visit)
    if not isinstance(visit.node, Items):
        return
    ty, (value,) = visit.node.numba_type, visit.values
    if visit.node.key is not None:
        data = em.context.make_helper(em.builder, ty, value=value).data
        yield dict_runtime.call(em, "fingerprint", cgutils.intp_t, data)
        return
    assert visit.entries is not None
    array = em.array(visit.entries.array_type, visit.entries.arrays[0])
    yield _bits_of(em.builder, array.data)
    yield array.nitems


def _address(em: Emit, visit: Visit) -> Iterator[Any]:
    """The address of a leaf (I1), or the bits of a number; nothing for what has no identity, such
    as a string.
    """
    node, builder = visit.node, em.builder
    ty = node.numba_type
    if isinstance(ty, types.Array | types.Number | types.Boolean):
        slots = em.context.get_arg_packer([ty]).as_arguments(builder, [*visit.values])
        for slot, bits in zip(abi.flatten(ty), slots, strict=True):
            if slot.role in _COMPARED:
                yield _bits_of(builder, bits)
    elif isinstance(ty, types.Record):
        yield _bits_of(builder, visit.values[0])
    elif isinstance(node, Struct) and not node.is_tuple:
        yield _bits_of(builder, memory_of(em, ty, visit.values[0]))
    elif isinstance(node, Items) and node.has_shadow:
        yield _bits_of(builder, em.context.make_helper(builder, ty, value=visit.values[0]).data)


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
