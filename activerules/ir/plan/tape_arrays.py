"""Arrays that are allocated in rows of the tape, and live as long as the tape does.

Needs       the facts of the function; the memory that the reverse sweep reads
Gives       `escaped`: memory that outlives the call, which must not be in a row; `arrays_in_rows`:
            the arrays that are; `is_plain`: the calls whose memory may be; the IR of
            `activerules.tape.array` and `.shadow`, which replace those calls
Invariants  O1  a row is freed with the tape, so no reference to an array in it may outlive the tape
            O2  the tape alone releases such an array: its reference count is so high that it never
                reaches zero, and wherever an array is known to be one of them, the instructions
                that count its references may be left out
            O3  memory without a reference count is put in a row only if every call that may free
                it frees nothing but memory in rows
"""

from __future__ import annotations

from collections.abc import Collection

from activerules.ir.analysis.memory.objects import MemoryObject, is_counted
from activerules.ir.llvm.model import Constant, Instruction
from activerules.ir.normal.effects import RELEASING, effect_of
from activerules.ir.plan.facts import Facts


def escaped(facts: Facts) -> frozenset[MemoryObject]:
    """Memory made here to which the caller, or a function whose code is not visible, may keep a
    reference (O1).
    """
    end = facts.returns.exit.terminator
    found = set(facts.memory.escaping(end.operands[0] if end.operands else None))
    # on failing paths too: an exception keeps its arguments alive
    for call in facts.request.function.instructions():
        if call.opcode == "call" and not _borrows(call, facts):
            for operand in call.operands:
                if operand.type.is_pointer:
                    found |= facts.memory.objects(operand)
    return frozenset(found | facts.memory.handed_over(found))


def _borrows(call: Instruction, facts: Facts) -> bool:
    """Whether a function is known to keep no reference to its arguments."""
    info = facts.calls.marked(call)
    if info is not None:
        return info.borrows
    effect = effect_of(call.callee_name)
    return effect is not None and not effect.keeps


def arrays_in_rows(
    facts: Facts, kept: Collection[MemoryObject], escaped: Collection[MemoryObject]
) -> frozenset[MemoryObject]:
    """The arrays that go into rows: the reverse sweep reads them, and nothing else owns them."""
    found = {o for o in kept if o not in escaped and _is_plain_site(o, facts)}
    freed = [
        {o for o in facts.memory.objects(call.operands[0]) if _may_be_freed(o, facts)}
        for block in facts.request.function.blocks
        for call in block.instructions
        if call.opcode == "call" and call.callee_name in RELEASING
    ]
    count = None
    while count != len(found):
        count = len(found)
        for objects in freed:
            if not objects <= found:
                found -= objects
    return frozenset(found)


def _may_be_freed(o: MemoryObject, facts: Facts) -> bool:
    """Whether an object may be memory that is freed explicitly.

    Numba frees the copy of an array that overlaps another one through a pointer that may also point
    to that array itself, which is not freed then.
    """
    if o.kind == "result" and isinstance(o.key, Instruction):
        return facts.calls.marked(o.key) is None
    if o.kind == "argument":
        return facts.request.callee != 0
    return o.kind not in {"alloca", "global"} and not is_counted(o)


def _is_plain_site(o: MemoryObject, facts: Facts) -> bool:
    call = o.key
    if o.kind != "allocation" or not isinstance(call, Instruction):
        return False
    return is_plain(call) and call.owner in facts.returns.live


def is_plain(call: Instruction) -> bool:
    """Whether a call allocates memory for numbers: it is never resized and has no destructor."""
    match call.callee_name:
        case "NRT_MemInfo_alloc" | "NRT_MemInfo_alloc_safe" | "NRT_Allocate":
            return True
        case "NRT_MemInfo_alloc_aligned" | "NRT_MemInfo_alloc_safe_aligned":
            alignment = call.operands[1]
            return isinstance(alignment, Constant) and alignment.text in ("8", "16", "32")
        case _:
            return False


TAPE_SHADOW = "activerules.tape.shadow"
TAPE_ARRAY = "activerules.tape.array"

TAPE_ARRAY_TEXT = """
; an NRT MemInfo {refcount, destructor, its argument, data, size, allocator} that lives as long as
; the tape: in a row if it is small; else the runtime allocates it, and the tape owns it.
; Its count never comes to zero. null: out of memory
define internal noalias ptr @activerules.tape.array(ptr nocapture %tape, i64 %bytes) \
noinline nounwind willreturn {
entry:
  %small = icmp ule i64 %bytes, 65536
  br i1 %small, label %row, label %heap
row:
  %need = add i64 %bytes, 64
  %place = call ptr @activerules.tape.reserve(ptr %tape, i64 %need)
  %full = icmp eq ptr %place, null
  br i1 %full, label %fail, label %fill
fill:
  %more = add i64 %need, 15
  %all = and i64 %more, -16
  %placed.at = getelementptr inbounds i8, ptr %tape, i64 72
  %placed.old = load i64, ptr %placed.at, align 8
  %placed = add i64 %placed.old, %all
  store i64 %placed, ptr %placed.at, align 8
  %place.int = ptrtoint ptr %place to i64
  %after = add i64 %place.int, 79
  %aligned = and i64 %after, -32
  %skip = sub i64 %aligned, %place.int
  %data = getelementptr i8, ptr %place, i64 %skip
  store i64 4611686018427387904, ptr %place, align 8
  %destructor.at = getelementptr inbounds i8, ptr %place, i64 8
  store ptr null, ptr %destructor.at, align 8
  %argument.at = getelementptr inbounds i8, ptr %place, i64 16
  store ptr null, ptr %argument.at, align 8
  %data.at = getelementptr inbounds i8, ptr %place, i64 24
  store ptr %data, ptr %data.at, align 8
  %size.at = getelementptr inbounds i8, ptr %place, i64 32
  store i64 %bytes, ptr %size.at, align 8
  %allocator.at = getelementptr inbounds i8, ptr %place, i64 40
  store ptr null, ptr %allocator.at, align 8
  ret ptr %place
heap:
  %large = call ptr @NRT_MemInfo_alloc_aligned(i64 %bytes, i32 32)
  %none = icmp eq ptr %large, null
  br i1 %none, label %fail, label %hold
hold:
  store i64 4611686018427387904, ptr %large, align 8
  %fine = call i1 @activerules.tape.own(ptr %tape, ptr @NRT_MemInfo_call_dtor, ptr %large)
  br i1 %fine, label %end, label %fail
fail:
  ret ptr null
end:
  ret ptr %large
}

; the same, of zeros
define internal noalias ptr @activerules.tape.shadow(ptr nocapture %tape, i64 %bytes) \
noinline nounwind willreturn {
entry:
  %made = call ptr @activerules.tape.array(ptr %tape, i64 %bytes)
  %none = icmp eq ptr %made, null
  br i1 %none, label %end, label %zero
zero:
  %data.at = getelementptr inbounds i8, ptr %made, i64 24
  %data = load ptr, ptr %data.at, align 8
  call void @llvm.memset.p0.i64(ptr align 16 %data, i8 0, i64 %bytes, i1 false)
  br label %end
end:
  ret ptr %made
}

declare noalias ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare void @NRT_MemInfo_call_dtor(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
