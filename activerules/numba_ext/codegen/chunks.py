"""Chunks of tape that one call passes on to the next: fresh memory costs a page fault per 4 kB, and
that can cost as much as the whole sweep.

Gives       `DEFINITION`: IR of `activerules.chunk.new` and `.old` (see ir/tape/runtime.py)
            `VARIABLES`: what they share among all derivatives of the process
Invariants  C1  at most one chunk is kept, of at most 256 MB; a larger tape is given back
            C2  it is taken and returned by one atomic exchange, so that threads never share it
            C3  a tape of several chunks frees them all, and the next new chunk is as large as they
                were together, so that tapes soon have one chunk. If so much memory cannot be
                allocated, the size that was asked for is tried
"""

VARIABLES = """
@activerules.chunk.spare = common global ptr null
@activerules.chunk.wish = common global i64 0
"""

DEFINITION = f"""{VARIABLES}
declare noalias ptr @malloc(i64)
declare void @free(ptr)

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
  %large = icmp ugt i64 %used, 268435456
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
  %other = atomicrmw xchg ptr @activerules.chunk.spare, ptr %chunk seq_cst
  call void @free(ptr %other)
  ret void
free:
  call void @free(ptr %chunk)
  ret void
}}
"""
