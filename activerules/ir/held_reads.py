"""Whether memory that a dropped reference may have freed is accessed by any code at all.

Needs       blocks that are run from a place on
Gives       `may_access`
Invariants  H1  accesses of these cannot be of such memory: the stack and constants; what an
                argument points to, which is lent; what is allocated in the blocks, if they are not
                run before

This is asked where nothing is known of what leads into the memory.
"""

from __future__ import annotations

from collections.abc import Collection

from activerules.ir.held_pointers import chosen_from, counted, gives_data
from activerules.ir.model import Argument, Block, Constant, GlobalRef, Instruction, Value
from activerules.ir.runtime_calls import CATCHES, effect_of
from activerules.ir.types import PointerType


def may_access(block: Block, blocks: Collection[Block], *, new: bool) -> bool:
    """Whether anything else than H1 says may be read or written in one of the blocks.

    new     the blocks are run only from that place on
    """
    apart = blocks if new else ()
    return any(_accesses(i, apart) for i in block.instructions)


def _accesses(i: Instruction, new: Collection[Block]) -> bool:
    match i.opcode:
        case "load":
            return not _is_apart(i.operands[0], new)
        case "store":
            return not _is_apart(i.operands[1], new)
        case "call":
            if counted(i) is not None or (i.callee_name or "").startswith(CATCHES):
                return False
            given = (o for o in i.operands if isinstance(o.type, PointerType))
            return not _is_direct(i) or not all(_is_apart(o, new) for o in given)
        case _:
            return False


def _is_direct(call: Instruction) -> bool:
    """Whether a function accesses the memory it is given a pointer to, and no other."""
    name = call.callee_name or ""
    effect = effect_of(name)
    if effect is None:
        return name.startswith("llvm.")
    return not effect.follows and not effect.hands_over


def _is_apart(place: Value, new: Collection[Block]) -> bool:
    """Whether a pointer is into what H1 names; `new`: what is allocated there is."""
    seen: set[Value] = set()
    work = [place]
    while work:
        one = work.pop()
        if one in seen or isinstance(one, Argument | Constant | GlobalRef):
            continue
        seen.add(one)
        if not isinstance(one, Instruction):
            return False
        chosen = chosen_from(one)
        if chosen:
            work += chosen
        elif one.opcode == "getelementptr" or gives_data(one):
            work.append(one.operands[0])
        elif one.opcode != "alloca" and not (one.owner in new and _allocates(one)):
            return False
    return True


def _allocates(i: Instruction) -> bool:
    effect = effect_of(i.callee_name) if i.opcode == "call" else None
    return effect is not None and effect.allocates
