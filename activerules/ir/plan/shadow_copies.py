"""Copies in shadow memory: the augmented primal repeats those of pointers and integers, the reverse
sweep reverses those of floats.

Needs       Facts; the nodes that each instruction needs in the reverse sweep
Gives       `mirrored`: the stores and copies of pointers and integers that are repeated;
            `undone_copies`: how each copy and `memset` of floats is reversed, or the refusal
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from activerules.ir.analysis.types.copies import (
    CopiedScalar,
    MixedCopy,
    PeriodicCopy,
    beside_floats,
    copied_scalars,
    cut_floats,
    has_pointers,
    mixed_copy,
)
from activerules.ir.llvm.model import Instruction
from activerules.ir.llvm.types import Type
from activerules.ir.normal.effects import memory_intrinsic
from activerules.ir.plan.facts import Facts


@dataclass(frozen=True, eq=False)
class UndoneCopy:
    """How the reverse sweep reverses a copy, or a `memset`.

    cleared   no source has a cotangent; the shadow of the target is cleared, except for `kept`
    kept      pointers and integers in the shadow that another sweep over the tape needs
    moved     the floats whose cotangents move to the source: all of one type, single ones, or a
              period of them; None: there are none
    cut       the floats inside which the copy may begin or end
    """

    cleared: bool
    kept: tuple[CopiedScalar, ...] = ()
    moved: Type | tuple[CopiedScalar, ...] | PeriodicCopy | None = None
    cut: Type | PeriodicCopy | None = None


def undone_copies(
    facts: Facts, undone: Collection[Instruction]
) -> Mapping[Instruction, UndoneCopy]:
    """How the reverse sweep reverses each copy and `memset`."""
    return {i: _undone(i, facts) for i in undone if memory_intrinsic(i)}


def _undone(i: Instruction, facts: Facts) -> UndoneCopy:
    types = facts.types
    if memory_intrinsic(i) == "memset" or not facts.activity.has_shadow(i.operands[1]):
        preserved = beside_floats(i, types) if facts.request.caller.split else []
        return UndoneCopy(cleared=True, kept=tuple(preserved), cut=cut_floats(i, types))
    try:
        moved = copied_scalars(i, types)
    except MixedCopy:
        raise mixed_copy(i) from None
    if isinstance(moved, list):
        return UndoneCopy(cleared=False, moved=tuple(s for s in moved if s.type.is_float))
    if isinstance(moved, PeriodicCopy) and not moved.floats:
        moved = None
    return UndoneCopy(cleared=False, moved=moved, cut=cut_floats(i, types) if moved else None)


def mirrored(facts: Facts) -> Mapping[Instruction, tuple[CopiedScalar, ...] | None]:
    """The stores and copies that are repeated on shadow memory. Of a copy that includes floats only
    the pointers are repeated, if there are any.
    """
    repeated: dict[Instruction, tuple[CopiedScalar, ...] | None] = {}
    for i in facts.returns.instructions():
        if i.opcode == "store" and _is_mirrored_store(i, facts):
            repeated[i] = None
        elif memory_intrinsic(i) and _is_mirrored_copy(i, facts):
            repeated[i] = _pointers_copied(i, facts)
    return repeated


def _is_mirrored_store(i: Instruction, facts: Facts) -> bool:
    value, pointer = i.operands
    if value.type.is_float or not facts.activity.has_shadow(pointer):
        return False
    request, objects = facts.request, facts.memory.objects(pointer)
    filled = request.mirrored if value.type.is_pointer else request.copied_integers
    shadowed = value.type.is_pointer and facts.activity.has_shadow(value)
    if not shadowed and not all(o.is_local or o in filled for o in objects):
        return False
    return value.type.is_pointer or not facts.types.touches_floats(i)


def _is_mirrored_copy(i: Instruction, facts: Facts) -> bool:
    """Whether a copy is repeated on the shadow: the memory holds pointers."""
    target = i.operands[0]
    return (
        facts.activity.has_shadow(target)
        and has_pointers(target, facts.types)
        and all(o.is_local for o in facts.memory.objects(target))
    )


def _pointers_copied(i: Instruction, facts: Facts) -> tuple[CopiedScalar, ...] | None:
    """The pointers of a copy with floats; None: all of it is repeated. Bytes that are not known to
    be a pointer do not count: where it matters, `undone_copies` refuses the copy.
    """
    objects = facts.memory.objects(i.operands[0])
    if memory_intrinsic(i) == "memset" or not any(map(facts.types.holds_float, objects)):
        return None
    try:
        copied = copied_scalars(i, facts.types)
    except MixedCopy:
        return ()
    return tuple(s for s in copied if s.type.is_pointer) if isinstance(copied, list) else ()
