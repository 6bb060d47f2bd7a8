"""Whether the result of a marked call is read, and whether only to be returned.

Needs       a marked call, the users of each value
Gives       `may_be_read`; `only_returned`: whether the result contributes only to that of the
            function, through operations whose derivatives do not need its value
Invariants  R1  if in doubt, a result is read: any but a number, which a call returns in a variable
                of its caller; LLVM has removed loads of that which have no effect
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from activerules.ir.derivatives.rulecall import CallInfo
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Instruction, Value

_Users = Mapping[Value, Sequence[Instruction]]
_LINEAR = frozenset({"fadd", "fsub", "fneg", "phi", "select"})
"""Operations on a float whose derivative does not need its value."""


def may_be_read(call: Instruction, info: CallInfo, users: _Users) -> bool:
    """Whether the result may be read."""
    if not _is_variable(call, info):
        return info.result_kind != "none"
    return bool(_reads(call, users))


def only_returned(
    call: Instruction, info: CallInfo, users: _Users, returned_in: Iterable[Value]
) -> bool:
    """`returned_in`: the pointers to the memory in which the function returns its result."""
    if not _is_variable(call, info):
        return False
    slots = _with_fields(returned_in, users)
    if not all(_is_stored_to(i, slots) for slot in slots for i in users.get(slot, ())):
        return False

    def onward(i: Instruction) -> Iterable[Instruction]:
        return (user for user in users.get(i, ()) if not _is_stored_to(user, slots))

    return all(map(_passes_on, closure(_reads(call, users), onward)))


def _is_variable(call: Instruction, info: CallInfo) -> bool:
    """Whether a call returns numbers in a local variable of the caller."""
    return info.result_kind == "value" and getattr(call.operands[0], "opcode", "") == "alloca"


def _reads(call: Instruction, users: _Users) -> list[Instruction]:
    """The instructions that may read the variable in which a call returns its result."""
    slot = call.operands[0]
    return [i for i in users.get(slot, ()) if i is not call and not _only_writes(i, slot)]


def _with_fields(pointers: Iterable[Value], users: _Users) -> set[Value]:
    """The pointers, and those into the same memory."""

    def fields(pointer: Value) -> Iterable[Value]:
        return (i for i in users.get(pointer, ()) if i.opcode == "getelementptr")

    return closure(pointers, fields)


def _is_stored_to(i: Instruction, slots: Set[Value]) -> bool:
    """Whether an instruction only stores to these addresses, or computes them."""
    if i.opcode == "store":
        return i.operands[1] in slots and i.operands[0] not in slots
    return i in slots


def _passes_on(i: Instruction) -> bool:
    """Whether an instruction only reads the returned value, or adds it to a sum."""
    if i.opcode == "getelementptr":
        return True
    return i.type.is_float and (i.opcode == "load" or i.opcode in _LINEAR)


def _only_writes(i: Instruction, slot: Value) -> bool:
    """Whether an instruction that mentions a variable can only write into it."""
    if i.opcode == "store":
        return i.operands[0] is not slot
    return i.opcode == "call" and (i.callee_name or "").startswith(("llvm.memset", "llvm.lifetime"))
