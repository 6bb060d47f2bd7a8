"""Chunks of tape that one call passes on to the next: fresh memory costs a page fault per 4 kB, and
that can cost as much as the whole sweep.

Gives       `DEFINITION`: IR of `activerules.chunk.new` and `.old` (see ir/tape/runtime.py)
            `VARIABLES`: what they share among all derivatives of the process
Invariants  C1  at most one chunk is kept, of at most 256 MB; on Linux of at most 2 GB, where the
                system may take back the pages of one with more than 256 MB while no tape is in it
            C2  it is taken and returned by one atomic exchange, so that threads never share it
            C3  a tape of several chunks frees them all, and the next new chunk is as large as they
                were together, so that tapes soon have one chunk. If so much memory cannot be
                allocated, the size that was asked for is tried
"""

import mmap
import sys

# bytes of the largest chunk that the process keeps for itself
_OWNED = 256 << 20

VARIABLES = """
@activerules.chunk.spare = common global ptr null
@activerules.chunk.wish = common global i64 0
"""

_LENDS = sys.platform == "linux"
_LARGEST = (2 << 30) if _LENDS else _OWNED

# MADV_FREE: pages keep their content until the system needs them. What shares a page with the size
# or with other memory is left out. To ask again takes as long as there are pages, milliseconds; a
# tape that does not reach the mark behind _OWNED has written nothing there. A system that refuses
# (before Linux 4.5) gets the chunk back.
_LEND = f"""
  %is.lent = icmp ugt i64 %size, {_OWNED}
  br i1 %is.lent, label %look, label %put
look:
  %mark.at = getelementptr i8, ptr %chunk, i64 {_OWNED}
  %mark = load i64, ptr %mark.at, align 8
  %untouched = icmp eq i64 %mark, {0x41525F6C656E7421}
  br i1 %untouched, label %put, label %lend
lend:
  %start = ptrtoint ptr %chunk to i64
  %end = add i64 %start, %size
  %behind = add i64 %start, {32 + mmap.PAGESIZE - 1}
  %first = and i64 %behind, {-mmap.PAGESIZE}
  %last = and i64 %end, {-mmap.PAGESIZE}
  %bytes = sub i64 %last, %first
  %pages = inttoptr i64 %first to ptr
  %status = call i32 @madvise(ptr %pages, i64 %bytes, i32 8)
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %free, label %lent
lent:
  store i64 {0x41525F6C656E7421}, ptr %mark.at, align 8
  br label %put"""

DEFINITION = f"""{VARIABLES}
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)

define ptr @activerules.chunk.new(i64 %size) noinline optnone nounwind {{
entry:
  %spare = atomicrmw xchg ptr @activerules.chunk.spare, ptr null seq_cst
  %none = icmp eq ptr %spare, null
  br i1 %none, label %fresh, label %look
look:
  %spare.size.at = getelementptr i8, ptr %spare, i64 8
  %spare.size = load i64, ptr %spare.size.at, align 8
  %fits = icmp uge i64 %spare.size, %size
  br i1 %fits, label %found, label %drop
found:
  ret ptr %spare
drop:
  call void @free(ptr %spare)
  br label %fresh
fresh:
  %wish = load atomic i64, ptr @activerules.chunk.wish monotonic, align 8
  %more = icmp ugt i64 %wish, %size
  br i1 %more, label %large, label %plain
large:
  %large.chunk = call ptr @malloc(i64 %wish)
  %refused = icmp eq ptr %large.chunk, null
  br i1 %refused, label %plain, label %made
plain:
  %plain.chunk = call ptr @malloc(i64 %size)
  %failed = icmp eq ptr %plain.chunk, null
  br i1 %failed, label %end, label %made
made:
  %chunk = phi ptr [ %large.chunk, %large ], [ %plain.chunk, %plain ]
  %bytes = phi i64 [ %wish, %large ], [ %size, %plain ]
  %size.at = getelementptr i8, ptr %chunk, i64 8
  store i64 %bytes, ptr %size.at, align 8
  br label %end
end:
  %new = phi ptr [ %chunk, %made ], [ null, %plain ]
  ret ptr %new
}}

define void @activerules.chunk.old(ptr %chunk, i64 %used) noinline optnone nounwind {{
entry:
  %large = icmp ugt i64 %used, {_LARGEST}
  br i1 %large, label %free, label %note
note:
  %wish = load atomic i64, ptr @activerules.chunk.wish monotonic, align 8
  %more = icmp ugt i64 %used, %wish
  %next.wish = select i1 %more, i64 %used, i64 %wish
  store atomic i64 %next.wish, ptr @activerules.chunk.wish monotonic, align 8
  %size.at = getelementptr i8, ptr %chunk, i64 8
  %size = load i64, ptr %size.at, align 8
  %single = icmp eq i64 %size, %used
  br i1 %single, label %keep, label %free
keep:
{_LEND if _LENDS else "  br label %put"}
put:
  %other = atomicrmw xchg ptr @activerules.chunk.spare, ptr %chunk seq_cst
  call void @free(ptr %other)
  ret void
free:
  call void @free(ptr %chunk)
  ret void
}}
"""
