"""The run time of generated code: the tape, as LLVM IR on malloc and free alone.

Chunks are allocated by `activerules.chunk.new(size)`, which stores their size in them, and freed by
`activerules.chunk.old(chunk, bytes of all chunks of the tape)`.

A tape is a struct on the stack of the gradient:

    0  ptr top      where the next row goes
    8  ptr end      end of the current chunk
   16  ptr chunk    the chunk `top` is in: {ptr previous, i64 size, ...} in its first 32 bytes;
                    null: the first, which is a buffer on the stack
   24  ptr owned    the list of what must be released: {ptr next, ptr function, ptr object}
   32  i64 total    bytes of all chunks
   40  i64 limit    bytes `total` may not exceed
   48  i64 used     bytes used in chunks before this one
   56  ptr first    start of this chunk's rows
   64  ptr floor    how far down the machine's stack recursion may go (only where there are callees)
   72  i64 objects  bytes of the objects in rows, which do not count as tape

`reserve` returns null when memory is exhausted. If a row does not fit into the chunk, it gets a new
one, and the next rows go into whichever of the two has more free bytes. `release` frees all memory
at once, on success and on error alike, after it has released every owned object.
"""

from __future__ import annotations

TAPE_SIZE = 80
STACK_CHUNK = 2048
OUT_OF_MEMORY = 0x41520001
"""The status of a derivative that ran out of memory for its tape."""
TOO_DEEP = 0x41520002
"""The status of a derivative whose recursion was too deep for the machine's stack."""
REFUSED = 0x41520003
"""The status if the engine's check of a rule has failed; its exception is stored like that of a
function that raises.
"""
ENDS = range(OUT_OF_MEMORY, REFUSED + 1)
"""The statuses of a derivative that its primal does not have: no `try` of the program sees them."""

OWNED_AT = 24
PREFIX = "activerules.tape."
COPY_ROWS = f"{PREFIX}copy_rows"
RUN_TIME = (PREFIX, "activerules.chunk.")
"""How the names of the functions and variables below begin."""
IN_MEMORY_OF_TAPE = {
    **{f"{PREFIX}{each}": False for each in ("reserve", "reserve_rows", "grow")},
    **{f"{PREFIX}{each}": True for each in ("array", "shadow")},
}
"""The functions that return memory of a tape, and whether that is a header with a pointer to items,
as Numba's arrays have.
"""

STACK_FLOOR = "activerules.stack.floor"
STACK_LEFT = "activerules.stack.left"
"""Functions for recursion in forward mode, which has no tape: the lowest stack address that it may
reach from here, and whether the stack is still above that address. They stay calls in code that is
differentiated again.
"""

STACK_DECLARATIONS = {
    STACK_FLOOR: f"declare i64 @{STACK_FLOOR}(i64) nounwind willreturn memory(none)",
    STACK_LEFT: f"declare i1 @{STACK_LEFT}(i64) nounwind willreturn memory(none)",
}
STACK_TEXT = f"""
define i64 @{STACK_FLOOR}(i64 %bytes) noinline nounwind memory(none) {{
entry:
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %address = ptrtoint ptr %here to i64
  %floor = sub i64 %address, %bytes
  ret i64 %floor
}}

define i1 @{STACK_LEFT}(i64 %floor) noinline nounwind memory(none) {{
entry:
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %address = ptrtoint ptr %here to i64
  %fine = icmp uge i64 %address, %floor
  ret i1 %fine
}}

declare ptr @llvm.frameaddress.p0(i32 immarg)
"""

TEXT = """
define internal ptr @activerules.tape.reserve(ptr %tape, i64 %bytes) alwaysinline nounwind {
entry:
  %more = add i64 %bytes, 15
  %need = and i64 %more, -16
  %top = load ptr, ptr %tape, align 8
  %end.at = getelementptr inbounds i8, ptr %tape, i64 8
  %end = load ptr, ptr %end.at, align 8
  %top.int = ptrtoint ptr %top to i64
  %end.int = ptrtoint ptr %end to i64
  %free = sub i64 %end.int, %top.int
  %fits = icmp ule i64 %need, %free
  %likely = call i1 @llvm.expect.i1(i1 %fits, i1 true)
  br i1 %likely, label %fast, label %slow
fast:
  %new = getelementptr i8, ptr %top, i64 %need
  store ptr %new, ptr %tape, align 8
  ret ptr %top
slow:
  %grown = call ptr @activerules.tape.grow(ptr %tape, i64 %need)
  ret ptr %grown
}

define internal ptr @activerules.tape.grow(ptr nocapture %tape, i64 %need) \
noinline optnone cold nounwind willreturn {
entry:
  %huge = icmp ugt i64 %need, 4611686018427387904
  br i1 %huge, label %fail, label %size
size:
  %total.at = getelementptr inbounds i8, ptr %tape, i64 32
  %total = load i64, ptr %total.at, align 8
  %limit.at = getelementptr inbounds i8, ptr %tape, i64 40
  %limit = load i64, ptr %limit.at, align 8
  %small = icmp ult i64 %total, 16384
  %at.least = select i1 %small, i64 16384, i64 %total
  %large = icmp ugt i64 %at.least, 67108864
  %usual = select i1 %large, i64 67108864, i64 %at.least
  %exact = add i64 %need, 32
  %more = icmp ugt i64 %exact, %usual
  %wish = select i1 %more, i64 %exact, i64 %usual
  %after = add i64 %total, %wish
  %over = icmp ugt i64 %after, %limit
  br i1 %over, label %fail, label %allocate
allocate:
  %chunk = call ptr @activerules.chunk.new(i64 %wish)
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %fail, label %link
link:
  %size.at = getelementptr inbounds i8, ptr %chunk, i64 8
  %size.new = load i64, ptr %size.at, align 8
  %total.new = add i64 %total, %size.new
  store i64 %total.new, ptr %total.at, align 8
  %rows = getelementptr i8, ptr %chunk, i64 32
  %chunk.at = getelementptr inbounds i8, ptr %tape, i64 16
  %previous = load ptr, ptr %chunk.at, align 8
  %used.at = getelementptr inbounds i8, ptr %tape, i64 48
  %used.old = load i64, ptr %used.at, align 8
  %top.old = load ptr, ptr %tape, align 8
  %top.int = ptrtoint ptr %top.old to i64
  %end.at = getelementptr inbounds i8, ptr %tape, i64 8
  %end.old = load ptr, ptr %end.at, align 8
  %end.int = ptrtoint ptr %end.old to i64
  %left.old = sub i64 %end.int, %top.int
  %left.new = sub i64 %size.new, %exact
  %stay = icmp ugt i64 %left.old, %left.new
  %inside = icmp ne ptr %previous, null
  %behind = and i1 %stay, %inside
  br i1 %behind, label %put.behind, label %switch
put.behind:
  %before = load ptr, ptr %previous, align 8
  store ptr %before, ptr %chunk, align 8
  store ptr %chunk, ptr %previous, align 8
  %used.more = add i64 %used.old, %need
  store i64 %used.more, ptr %used.at, align 8
  ret ptr %rows
switch:
  store ptr %previous, ptr %chunk, align 8
  store ptr %chunk, ptr %chunk.at, align 8
  %first.at = getelementptr inbounds i8, ptr %tape, i64 56
  %first.old = load ptr, ptr %first.at, align 8
  %first.int = ptrtoint ptr %first.old to i64
  %filled = sub i64 %top.int, %first.int
  %used = add i64 %used.old, %filled
  store i64 %used, ptr %used.at, align 8
  store ptr %rows, ptr %first.at, align 8
  %top = getelementptr i8, ptr %rows, i64 %need
  store ptr %top, ptr %tape, align 8
  %end = getelementptr i8, ptr %chunk, i64 %size.new
  store ptr %end, ptr %end.at, align 8
  ret ptr %rows
fail:
  ret ptr null
}

define internal ptr @activerules.tape.reserve_rows(ptr %tape, i64 %count, i64 %size) \
alwaysinline nounwind {
entry:
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %bytes = extractvalue { i64, i1 } %product, 0
  %wraps = extractvalue { i64, i1 } %product, 1
  %large = icmp ugt i64 %bytes, 4611686018427387904
  %bad = or i1 %wraps, %large
  %need = select i1 %bad, i64 -16, i64 %bytes
  %rows = call ptr @activerules.tape.reserve(ptr %tape, i64 %need)
  ret ptr %rows
}

define internal i1 @activerules.tape.own(ptr %tape, ptr %function, ptr %object) nounwind {
entry:
  %record = call ptr @activerules.tape.reserve(ptr %tape, i64 24)
  %none = icmp eq ptr %record, null
  br i1 %none, label %fail, label %link
link:
  %owned.at = getelementptr inbounds i8, ptr %tape, i64 24
  %next = load ptr, ptr %owned.at, align 8
  store ptr %next, ptr %record, align 8
  %function.at = getelementptr inbounds i8, ptr %record, i64 8
  store ptr %function, ptr %function.at, align 8
  %object.at = getelementptr inbounds i8, ptr %record, i64 16
  store ptr %object, ptr %object.at, align 8
  store ptr %record, ptr %owned.at, align 8
  ret i1 true
fail:
  call void %function(ptr %object)
  ret i1 false
}

define internal void @activerules.tape.open(ptr %tape, ptr %buffer, i64 %limit) \
alwaysinline nounwind {
entry:
  store ptr %buffer, ptr %tape, align 8
  %end.at = getelementptr inbounds i8, ptr %tape, i64 8
  %end = getelementptr i8, ptr %buffer, i64 2048
  store ptr %end, ptr %end.at, align 8
  %chunk.at = getelementptr inbounds i8, ptr %tape, i64 16
  store ptr null, ptr %chunk.at, align 8
  %owned.at = getelementptr inbounds i8, ptr %tape, i64 24
  store ptr null, ptr %owned.at, align 8
  %total.at = getelementptr inbounds i8, ptr %tape, i64 32
  store i64 0, ptr %total.at, align 8
  %limit.at = getelementptr inbounds i8, ptr %tape, i64 40
  store i64 %limit, ptr %limit.at, align 8
  %used.at = getelementptr inbounds i8, ptr %tape, i64 48
  store i64 0, ptr %used.at, align 8
  %first.at = getelementptr inbounds i8, ptr %tape, i64 56
  store ptr %buffer, ptr %first.at, align 8
  %objects.at = getelementptr inbounds i8, ptr %tape, i64 72
  store i64 0, ptr %objects.at, align 8
  ret void
}

define internal void @activerules.tape.bound(ptr %tape, i64 %bytes) alwaysinline nounwind {
entry:
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %down = sub i64 0, %bytes
  %floor = getelementptr i8, ptr %here, i64 %down
  %floor.at = getelementptr inbounds i8, ptr %tape, i64 64
  store ptr %floor, ptr %floor.at, align 8
  ret void
}

define internal i1 @activerules.tape.has_stack(ptr %tape) alwaysinline nounwind {
entry:
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %floor.at = getelementptr inbounds i8, ptr %tape, i64 64
  %floor = load ptr, ptr %floor.at, align 8
  %fine = icmp uge ptr %here, %floor
  ret i1 %fine
}

declare ptr @llvm.frameaddress.p0(i32 immarg)

define internal i64 @activerules.tape.used(ptr %tape) nounwind {
entry:
  %top = load ptr, ptr %tape, align 8
  %first.at = getelementptr inbounds i8, ptr %tape, i64 56
  %first = load ptr, ptr %first.at, align 8
  %top.int = ptrtoint ptr %top to i64
  %first.int = ptrtoint ptr %first to i64
  %filled = sub i64 %top.int, %first.int
  %used.at = getelementptr inbounds i8, ptr %tape, i64 48
  %used = load i64, ptr %used.at, align 8
  %sum = add i64 %used, %filled
  %objects.at = getelementptr inbounds i8, ptr %tape, i64 72
  %objects = load i64, ptr %objects.at, align 8
  %rows = sub i64 %sum, %objects
  ret i64 %rows
}

define internal void @activerules.tape.release(ptr %tape) nounwind {
entry:
  %owned.at = getelementptr inbounds i8, ptr %tape, i64 24
  %owned = load ptr, ptr %owned.at, align 8
  br label %objects
objects:
  %record = phi ptr [ %owned, %entry ], [ %next, %drop ]
  %done = icmp eq ptr %record, null
  br i1 %done, label %chunks.start, label %drop
drop:
  %next = load ptr, ptr %record, align 8
  %function.at = getelementptr inbounds i8, ptr %record, i64 8
  %function = load ptr, ptr %function.at, align 8
  %object.at = getelementptr inbounds i8, ptr %record, i64 16
  %object = load ptr, ptr %object.at, align 8
  call void %function(ptr %object)
  br label %objects
chunks.start:
  %chunk.at = getelementptr inbounds i8, ptr %tape, i64 16
  %last = load ptr, ptr %chunk.at, align 8
  %total.at = getelementptr inbounds i8, ptr %tape, i64 32
  %total = load i64, ptr %total.at, align 8
  br label %chunks
chunks:
  %chunk = phi ptr [ %last, %chunks.start ], [ %previous, %give.back ]
  %empty = icmp eq ptr %chunk, null
  br i1 %empty, label %end, label %give.back
give.back:
  %previous = load ptr, ptr %chunk, align 8
  call void @activerules.chunk.old(ptr %chunk, i64 %total)
  br label %chunks
end:
  ret void
}

; back to an empty tape, after release: that may be called again
define internal void @activerules.tape.forget(ptr %tape) nounwind {
entry:
  %chunk.at = getelementptr inbounds i8, ptr %tape, i64 16
  store ptr null, ptr %chunk.at, align 8
  %owned.at = getelementptr inbounds i8, ptr %tape, i64 24
  store ptr null, ptr %owned.at, align 8
  ret void
}

declare i1 @llvm.expect.i1(i1, i1)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
"""

CHUNKS = """
define internal ptr @activerules.chunk.new(i64 %size) nounwind {
entry:
  %chunk = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %end, label %fill
fill:
  %size.at = getelementptr inbounds i8, ptr %chunk, i64 8
  store i64 %size, ptr %size.at, align 8
  br label %end
end:
  ret ptr %chunk
}

define internal void @activerules.chunk.old(ptr %chunk, i64 %total) nounwind {
entry:
  call void @free(ptr %chunk)
  ret void
}

declare noalias ptr @malloc(i64)
declare void @free(ptr)
"""

CHUNKS_ELSEWHERE = """
declare noalias ptr @activerules.chunk.new(i64)
declare void @activerules.chunk.old(ptr, i64)
"""
"""Declarations of `chunk.new` and `chunk.old` that the front end defines when it links the text: it
keeps chunks from one call to the next."""

COPY_ROWS_TEXT = """
; the rows of a box: %width bytes each, %count rows of a layer, %count.out layers, with the given
; bytes from one to the next in the array and in the copy; what lies before %first or not before
; %end is left out
define internal void @activerules.tape.copy_rows(ptr %to, ptr %from, ptr %first, ptr %end, \
i64 %width, i64 %count, i64 %stride, i64 %pitch, i64 %count.out, i64 %stride.out, i64 %pitch.out) \
noinline nounwind {
entry:
  %rows = icmp sgt i64 %count, 0
  %layers = icmp sgt i64 %count.out, 0
  %any = and i1 %rows, %layers
  br i1 %any, label %layer, label %done
layer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %layer.end ]
  %i.from = mul i64 %i, %stride.out
  %i.to = mul i64 %i, %pitch.out
  br label %row
row:
  %j = phi i64 [ 0, %layer ], [ %j.next, %row.end ]
  %j.from = mul i64 %j, %stride
  %j.to = mul i64 %j, %pitch
  %at.from = add i64 %i.from, %j.from
  %at.to = add i64 %i.to, %j.to
  %begin.all = getelementptr i8, ptr %from, i64 %at.from
  %end.all = getelementptr i8, ptr %begin.all, i64 %width
  %early = icmp ult ptr %begin.all, %first
  %begin = select i1 %early, ptr %first, ptr %begin.all
  %late = icmp ugt ptr %end.all, %end
  %stop = select i1 %late, ptr %end, ptr %end.all
  %some = icmp ult ptr %begin, %stop
  br i1 %some, label %copy, label %row.end
copy:
  %begin.int = ptrtoint ptr %begin to i64
  %stop.int = ptrtoint ptr %stop to i64
  %all.int = ptrtoint ptr %begin.all to i64
  %bytes = sub i64 %stop.int, %begin.int
  %left = sub i64 %begin.int, %all.int
  %at = add i64 %at.to, %left
  %target = getelementptr i8, ptr %to, i64 %at
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %begin, i64 %bytes, i1 false)
  br label %row.end
row.end:
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %count
  br i1 %more, label %row, label %layer.end
layer.end:
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %count.out
  br i1 %again, label %layer, label %done
done:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

RESIZED_TEXT = """
; how many bytes are copied when memory, primal or shadow, is resized to %size: no more than it has,
; as the rest was never written. It must not be inlined: LLVM assumes that the block has exactly the
; size malloc was asked for
define internal i64 @activerules.copied_size(ptr %old, i64 %size) noinline nounwind {
entry:
  %has = call i64 @malloc_usable_size(ptr %old)
  %less = icmp ult i64 %has, %size
  %bytes = select i1 %less, i64 %has, i64 %size
  ret i64 %bytes
}

define internal void @activerules.copy_resized(ptr %new, ptr %old, i64 %size) noinline nounwind {
entry:
  %least = call i64 @activerules.copied_size(ptr %old, i64 %size)
  %failed = icmp eq ptr %new, null
  %bytes = select i1 %failed, i64 0, i64 %least
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %bytes, i1 false)
  ret void
}

declare i64 @malloc_usable_size(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
