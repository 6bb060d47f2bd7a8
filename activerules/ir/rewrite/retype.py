"""Floats that are copied as integers or pointers are copied as floats instead, and pointers that
are copied as integers as pointers.

Needs       a Function in normal form and its ValueTypes
Gives       the function, changed in place: an `i64`, `i32` or `ptr` that is loaded from memory with
            floats, and then only stored (directly or through phi and select), becomes a float of
            the same size; an `i64` loaded from or stored to memory with pointers becomes a `ptr`
Invariants  T1  every value has the bits it had
            T2  a load with any other use stays as it is (if it carries a derivative,
                `ir/analysis/soundness.py` refuses it)
"""

from __future__ import annotations

from collections import defaultdict

from activerules.ir.analysis.types.value_types import ValueTypes
from activerules.ir.llvm.model import Constant, Function, Instruction, Value
from activerules.ir.llvm.types import DOUBLE, FLOAT, I64, PTR, Type, size_of

_FLOAT_OF_SIZE: dict[int, Type] = {8: DOUBLE, 4: FLOAT}


def retype_float_copies(function: Function, types: ValueTypes) -> bool:
    """Rewrite; returns whether anything was changed (the analyses must then run again)."""
    users = _users(function)
    changed = False
    for i in list(function.instructions()):
        if i.opcode != "load" or i.type.is_float or not types.touches_floats(i):
            continue
        group = _copies(i, users)
        target = _float_type(i, types)
        if group is not None and target is not None:
            _retype(group, target)
            changed = True
    return changed


def retype_pointer_copies(function: Function, types: ValueTypes) -> bool:
    """Rewrite; returns whether anything was changed (points-to sets must then be recomputed)."""
    users = _users(function)
    changed = False
    for i in list(function.instructions()):
        if i.opcode != "load" or i.type != I64 or not i.is_ordinary:
            continue
        if types.touches_floats(i):
            continue
        group = _copies(i, users)
        if group is None or not (types.touches_pointers(i) or _is_stored(group, users, types)):
            continue
        _retype(group, PTR)
        changed = True
    return changed


def _is_stored(group: set[Instruction], users: _Users, types: ValueTypes) -> bool:
    """Whether a value of the group is stored to memory with pointers."""
    stores = (u for value in group for u in users[value] if u.opcode == "store")
    return any(types.touches_pointers(store) for store in stores)


def _retype(group: set[Instruction], target: Type) -> None:
    for value in group:
        value.type = target
        value.attributes.pop("metadata", None)
        value.operands = [_as_type(o, target) if _is_bits(o) else o for o in value.operands]


_Users = dict[Value, list[Instruction]]


def _users(function: Function) -> _Users:
    users: _Users = defaultdict(list)
    for i in function.instructions():
        for operand in i.operands:
            users[operand].append(i)
    return users


def _copies(load: Instruction, users: _Users) -> set[Instruction] | None:
    """The load, and the phis and selects that pass it on to stores; None if it has other uses."""
    group, work = {load}, [load]
    while work:
        value = work.pop()
        for user in users[value]:
            if (
                user.opcode == "store"
                and user.operands[0] is value
                and user.operands[1] is not value
            ):
                continue
            if user.opcode not in {"phi", "select"} or (
                user.operands[0] is value and user.opcode == "select"
            ):
                return None
            if user not in group:
                group.add(user)
                work.append(user)
    merges = [v for v in group if v.opcode != "load"]
    values = {o for v in merges for o in (v.operands[1:] if v.opcode == "select" else v.operands)}
    return group if all(v in group or _is_bits(v) for v in values) else None


def _is_bits(value: Value) -> bool:
    return (
        isinstance(value, Constant)
        and not value.type.is_float
        and value.text in {"0", "null", "undef", "poison"}
    )


def _as_type(value: Value, target: Type) -> Constant:
    assert isinstance(value, Constant)
    zero = "null" if target.is_pointer else "0.000000e+00"
    return Constant(target, value.text if value.text in {"undef", "poison"} else zero)


def _float_type(load: Instruction, types: ValueTypes) -> Type | None:
    """The float type of the memory, if it has the size of the load."""
    wanted = _FLOAT_OF_SIZE.get(size_of(load.type, types.memory.named_types))
    kinds = {t for o in types.memory.objects(load.operands[0]) for t in types.float_types(o)}
    return wanted if wanted is not None and kinds <= {wanted} else None
