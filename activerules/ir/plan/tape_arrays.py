"""Arrays that are allocated in rows of the tape, and live as long as the tape does.

Needs       the facts of the function; the memory that the reverse sweep reads
Gives       `escaped`: memory that outlives the call, which must not be in a row; `arrays_in_rows`:
            the arrays that are; `is_plain`: the calls whose memory may be; `reused_shadows`: the
            calls in loops whose shadows, in rows too, are used for later arrays again
Invariants  O1  a row is freed with the tape, so no reference to an array in it may outlive the tape
            O2  the tape alone releases such an array, whatever its size: its reference count is so
                high that it never reaches zero, and wherever an array is known to be one of them,
                the instructions that count its references may be left out
            O3  memory without a reference count is put in a row only if every call that may free
                it frees nothing but memory in rows
            O4  a shadow is used again only for an array that is allocated after the last access to
                its own: the reverse sweep, which goes back, has then finished with the shadow of
                the later array, and cleared it, before it needs that of the earlier
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from activerules.ir.analysis.memory.objects import SAME_OBJECT, MemoryObject, is_counted
from activerules.ir.llvm.model import Constant, Instruction, Value
from activerules.ir.normal.effects import allocation, effect_of, frees
from activerules.ir.plan.facts import Facts

# what only computes a pointer from others is no access
_COMPUTED = SAME_OBJECT | {"phi", "select"}


def escaped(facts: Facts) -> frozenset[MemoryObject]:
    """Memory made here to which the caller, or a function whose code is not visible, may keep a
    reference (O1).
    """
    end = facts.returns.exit.terminator
    outliving = set(facts.memory.escaping(end.operands[0] if end.operands else None))
    # on failing paths too: an exception keeps its arguments alive
    for call in facts.request.function.instructions():
        if call.opcode == "call" and not _borrows(call, facts):
            for operand in call.operands:
                if operand.type.is_pointer:
                    outliving |= facts.memory.objects(operand)
    return frozenset(outliving | facts.memory.handed_over(outliving))


def _borrows(call: Instruction, facts: Facts) -> bool:
    """Whether a function is known to keep no reference to its arguments."""
    info = facts.calls.marked(call)
    if info is not None:
        return info.borrows
    effect = effect_of(call.callee_name)
    return effect is not None and not effect.keeps


def arrays_in_rows(
    facts: Facts, cached: Collection[MemoryObject], escaped: Collection[MemoryObject]
) -> frozenset[MemoryObject]:
    """The arrays that go into rows: the reverse sweep reads them, and nothing else owns them."""
    in_rows = {o for o in cached if o not in escaped and _is_plain_site(o, facts)}
    freed = [
        {o for o in facts.memory.objects(call.operands[0]) if _may_be_freed(o, facts)}
        for block in facts.request.function.blocks
        for call in block.instructions
        if call.opcode == "call" and frees(call)
    ]
    count = None
    while count != len(in_rows):
        count = len(in_rows)
        for objects in freed:
            if not objects <= in_rows:
                in_rows -= objects
    return frozenset(in_rows)


def reused_shadows(
    facts: Facts, escaped: Collection[MemoryObject], mirrored: Iterable[Instruction]
) -> dict[Instruction, int]:
    """The calls in loops whose shadows are used again (O4), and how many of each are in use at a
    time: one if an array is used in the iteration that allocates it, two if in the next one, too.

    mirrored   what is repeated on shadows: these hold integers that the reverse sweep reads
    """
    copied = (p for i in mirrored for p in i.operands if p.type.is_pointer)
    filled = {o for p in copied for o in facts.memory.objects(p)}
    changes, reused = facts.memory.changes, dict[Instruction, int]()
    for o, pointers in _accessed(facts).items():
        if (
            isinstance(o.key, Instruction)
            and _is_plain_site(o, facts)
            and is_counted(o)
            and facts.flow.loop_of(o.key.owner) is not None
            and o in facts.activity.active_memory
            and not (o in escaped or o in filled or o in changes.stored)
        ):
            ages = [changes.instances.age(p, o) for p in pointers]
            if None not in ages:
                reused[o.key] = 1 + max(age for age in ages if age is not None)
    return reused


def _accessed(facts: Facts) -> dict[MemoryObject, set[Value]]:
    """The pointers by which each object is accessed, on the way to a result."""
    pointers: dict[MemoryObject, set[Value]] = {}
    for i in facts.returns.instructions():
        for operand in () if i.opcode in _COMPUTED else i.operands:
            for o in facts.memory.objects(operand) if operand.type.is_pointer else ():
                pointers.setdefault(o, set()).add(operand)
    return pointers


def _may_be_freed(o: MemoryObject, facts: Facts) -> bool:
    """Whether an object may be memory that is freed explicitly.

    Numba frees the copy of an array that overlaps another one through a pointer that may also point
    to that array itself, which is not freed then.
    """
    if o.kind == "result" and isinstance(o.key, Instruction):
        return facts.calls.marked(o.key) is None
    if o.kind == "argument":
        return facts.request.callee is not None
    return o.kind not in {"alloca", "global"} and not is_counted(o)


def _is_plain_site(o: MemoryObject, facts: Facts) -> bool:
    call = o.key
    if o.kind != "allocation" or not isinstance(call, Instruction):
        return False
    return is_plain(call) and call.owner in facts.returns.live


def is_plain(call: Instruction) -> bool:
    """Whether a call allocates memory for numbers: it is never resized and has no destructor."""
    made = allocation(call)
    if made is None or not made.in_rows or made.alignment is None:
        return made is not None and made.in_rows
    alignment = call.operands[made.alignment]
    return isinstance(alignment, Constant) and alignment.text in ("8", "16", "32")
