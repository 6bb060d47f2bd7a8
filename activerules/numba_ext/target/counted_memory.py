"""Reference-counted memory of Numba's runtime (NRT): the functions that generated code calls.

Gives       `COUNTED`: names of runtime functions, and LLVM IR of the functions we add
Invariants  C1  the layout is that of numba/core/runtime/nrt.cpp: a MemInfo is {i64 references,
                ptr destructor, ptr its argument, ptr data, i64 size, ptr allocator}
"""

from __future__ import annotations

from activerules.ir.normal.effects import (
    CLEAR_COUNTED,
    GROW_SHADOW,
    REUSED_SHADOW,
    TAPE_ARRAY,
    TAPE_SHADOW,
    CountedMemory,
)

_TAPE_ARRAY = """
; an NRT MemInfo {refcount, destructor, its argument, data, size, allocator} that lives as long as
; the tape. Its count never comes to zero. null: out of memory
define internal noalias ptr @activerules.tape.array(ptr nocapture %tape, i64 %bytes) \
noinline nounwind willreturn {
entry:
  %possible = icmp ule i64 %bytes, 4611686018427387904
  br i1 %possible, label %row, label %fail
row:
  %need = add i64 %bytes, 64
  %block = call ptr @activerules.tape.reserve(ptr %tape, i64 %need)
  %full = icmp eq ptr %block, null
  br i1 %full, label %fail, label %fill
fill:
  %more = add i64 %need, 15
  %all = and i64 %more, -16
  %objects.at = getelementptr inbounds i8, ptr %tape, i64 72
  %objects.old = load i64, ptr %objects.at, align 8
  %objects = add i64 %objects.old, %all
  store i64 %objects, ptr %objects.at, align 8
  %block.int = ptrtoint ptr %block to i64
  %after = add i64 %block.int, 79
  %aligned = and i64 %after, -32
  %skip = sub i64 %aligned, %block.int
  %data = getelementptr i8, ptr %block, i64 %skip
  store i64 4611686018427387904, ptr %block, align 8
  %destructor.at = getelementptr inbounds i8, ptr %block, i64 8
  store ptr null, ptr %destructor.at, align 8
  %argument.at = getelementptr inbounds i8, ptr %block, i64 16
  store ptr null, ptr %argument.at, align 8
  %data.at = getelementptr inbounds i8, ptr %block, i64 24
  store ptr %data, ptr %data.at, align 8
  %size.at = getelementptr inbounds i8, ptr %block, i64 32
  store i64 %bytes, ptr %size.at, align 8
  %allocator.at = getelementptr inbounds i8, ptr %block, i64 40
  store ptr null, ptr %allocator.at, align 8
  ret ptr %block
fail:
  ret ptr null
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

; the same, or `old` if that has this size: an array of zeros that is not in use, or null
define internal ptr @activerules.tape.reused_shadow(ptr nocapture %tape, i64 %bytes, ptr %old) \
noinline nounwind willreturn {
entry:
  %none = icmp eq ptr %old, null
  br i1 %none, label %new, label %compare
compare:
  %size.at = getelementptr inbounds i8, ptr %old, i64 32
  %size = load i64, ptr %size.at, align 8
  %fits = icmp eq i64 %size, %bytes
  br i1 %fits, label %again, label %new
again:
  ret ptr %old
new:
  %made = call ptr @activerules.tape.shadow(ptr %tape, i64 %bytes)
  ret ptr %made
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_GROW = """
; the shadow of memory that is resized: it never shrinks, as what the primal drops in the end was
; there before, and new memory is zero. Its data may move; null: out of memory
define linkonce_odr ptr @activerules.shadow.grow(ptr %meminfo, i64 %bytes) noinline nounwind {
entry:
  %size.at = getelementptr inbounds i8, ptr %meminfo, i64 32
  %size = load i64, ptr %size.at, align 8
  %fits = icmp ule i64 %bytes, %size
  br i1 %fits, label %same, label %grow
same:
  %data.at = getelementptr inbounds i8, ptr %meminfo, i64 24
  %data = load ptr, ptr %data.at, align 8
  ret ptr %data
grow:
  %moved = call ptr @NRT_MemInfo_varsize_realloc(ptr %meminfo, i64 %bytes)
  %failed = icmp eq ptr %moved, null
  br i1 %failed, label %end, label %clear
clear:
  %new = getelementptr i8, ptr %moved, i64 %size
  %more = sub i64 %bytes, %size
  call void @llvm.memset.p0.i64(ptr %new, i8 0, i64 %more, i1 false)
  br label %end
end:
  ret ptr %moved
}

declare ptr @NRT_MemInfo_varsize_realloc(ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_CLEAR = """
; null is none
define internal void @activerules.counted.clear(ptr %meminfo) nounwind {
entry:
  %none = icmp eq ptr %meminfo, null
  br i1 %none, label %end, label %clear
clear:
  %data.at = getelementptr inbounds i8, ptr %meminfo, i64 24
  %data = load ptr, ptr %data.at, align 8
  %size.at = getelementptr inbounds i8, ptr %meminfo, i64 32
  %size = load i64, ptr %size.at, align 8
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  br label %end
end:
  ret void
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

COUNTED = CountedMemory(
    retain="NRT_incref",
    release="NRT_decref",
    data="NRT_MemInfo_data_fast",
    data_offset=24,
    definitions={
        TAPE_ARRAY: _TAPE_ARRAY,
        TAPE_SHADOW: _TAPE_ARRAY,
        REUSED_SHADOW: _TAPE_ARRAY,
        GROW_SHADOW: _GROW,
        CLEAR_COUNTED: _CLEAR,
    },
)
