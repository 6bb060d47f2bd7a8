"""How Numba passes a value: the flattened LLVM parameters of a type, and the role of each one.

Needs       a Numba type with a data model
Gives       `flatten(type)`: an `AbiParameter` per LLVM parameter, in the order of the convention;
            `meminfo_offsets(type)`: where a returned value points to counted memory;
            `float_offsets(type)`: where it has floats; `member_offset`: of a part of a struct
Invariants  B1  the LLVM types are those of Numba's own argument packer
            B2  a type without a special shape gets roles from its LLVM types alone, never an error

An array becomes meminfo, parent, number of items, item size, data, shape..., strides...; tuples,
optionals and other structs are the concatenation of their members; an omitted argument becomes
nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.datamodel.registry import default_manager
from numba.core.registry import cpu_target

from activerules.ir.llvm.types import FLOAT_TYPES, Type

Role = Literal[
    "float", "int", "meminfo", "parent", "data", "size", "itemsize", "shape", "stride", "pointer",
    "dummy",
]  # fmt: skip

# Of Numba's "dummy" types, those that do pass something.
_ADDRESSES = (types.RawPointer, types.PyObject)


@dataclass(frozen=True)
class AbiParameter:
    """One LLVM parameter: its type as text, and its role in the value."""

    llvm: str
    role: Role


def flatten(numba_type: types.Type) -> tuple[AbiParameter, ...]:
    """The LLVM parameters that an argument of this type becomes, in the order of the calling
    convention.
    """
    return tuple(_slots(default_manager.lookup(numba_type)))


def meminfo_offsets(numba_type: types.Type) -> tuple[int, ...]:
    """Byte offsets of the pointers to reference-counted memory in a returned value.

    Tuples and other structs have those of their members.
    """
    parts = _parts(default_manager.lookup(numba_type), 0)
    return tuple(offset for offset, part in parts if isinstance(part.fe_type, types.MemInfoPointer))


def float_offsets(numba_type: types.Type) -> tuple[tuple[int, Type], ...]:
    """Byte offsets of the floats that are parts of a value a function returns, with their LLVM
    types; a complex number is two.
    """
    parts = _parts(default_manager.lookup(numba_type), 0)
    leaves = ((offset, part.get_value_type()) for offset, part in parts)
    return tuple(
        (offset, FLOAT_TYPES[str(leaf)])
        for offset, leaf in leaves
        if isinstance(leaf, ir.FloatType | ir.DoubleType)
    )


def _parts(model: Any, offset: int) -> Iterator[tuple[int, Any]]:
    """A model at an offset, and all that it consists of, each with its offset."""
    yield offset, model
    for index, member in _members(model):
        inside = member_offset(model.get_value_type(), index)
        yield from _parts(member, offset + inside)


def _members(model: Any) -> Iterator[tuple[int, Any]]:
    """The parts of a struct, by their positions."""
    if isinstance(model, models.StructModel):
        yield from ((index, model.get_model(index)) for index in range(model.field_count))
    elif isinstance(model, models.UniTupleModel):
        item = default_manager.lookup(model.fe_type.dtype)
        yield from ((index, item) for index in range(model.fe_type.count))


def member_offset(whole: Any, index: int) -> int:
    """The offset of a member of a struct or array of LLVM."""
    target: Any = cpu_target.target_context
    data = target.target_data
    if isinstance(whole, ir.ArrayType):
        return index * whole.element.get_abi_size(data)
    return whole.get_element_offset(data, index)


def _slots(model: Any) -> Iterator[AbiParameter]:
    if isinstance(model, models.OmittedArgDataModel):
        return
    if isinstance(model.fe_type, types.Buffer):
        yield from _buffer_slots(model)
    elif isinstance(model, models.StructModel):
        for index in range(model.field_count):
            yield from _slots(model.get_model(index))
    elif isinstance(model, models.UniTupleModel):
        element = tuple(_slots(default_manager.lookup(model.fe_type.dtype)))
        yield from element * model.fe_type.count
    else:
        for leaf in _leaves(model.get_argument_type()):
            yield AbiParameter(_text(leaf), _leaf_role(model.fe_type, leaf))


def _buffer_slots(model: Any) -> Iterator[AbiParameter]:
    ndim = model.fe_type.ndim
    roles: list[Role] = ["meminfo", "parent", "size", "itemsize", "data"]
    roles += ["shape"] * ndim
    roles += ["stride"] * ndim
    leaves = list(_leaves(model.get_argument_type()))
    for role, leaf in zip(roles, leaves, strict=True):
        yield AbiParameter(_text(leaf), role)


def _leaves(nested: Any) -> Iterator[ir.Type]:
    """The LLVM types of an argument; Numba keeps the parts of one argument as a nested tuple."""
    if isinstance(nested, tuple | list):
        for part in nested:
            yield from _leaves(part)
    elif isinstance(nested, ir.ArrayType):
        for _ in range(nested.count):
            yield from _leaves(nested.element)
    else:
        yield nested


def _text(leaf: ir.Type) -> str:
    return "ptr" if isinstance(leaf, ir.PointerType) else str(leaf)


def _leaf_role(numba_type: types.Type, leaf: ir.Type) -> Role:
    if isinstance(numba_type, types.MemInfoPointer):
        return "meminfo"
    if isinstance(numba_type, types.Dummy) and not isinstance(numba_type, _ADDRESSES):
        return "dummy"
    if isinstance(leaf, ir.FloatType | ir.DoubleType | ir.HalfType):
        return "float"
    if isinstance(leaf, ir.PointerType):
        return "pointer"
    return "int"
