; an array that grows by realloc, from no memory at all, while it is read and written
; arguments: Duplicated double[7], Const i64 7
; expect: gradient
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
define double @f(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %stored ]
  %v = phi ptr [ null, %entry ], [ %w, %stored ]
  %cap = phi i64 [ 0, %entry ], [ %cap2, %stored ]
  %s = phi double [ 0.0, %entry ], [ %s1, %stored ]
  %full = icmp eq i64 %i, %cap
  br i1 %full, label %grow, label %stored
grow:
  %twice = mul i64 %cap, 2
  %more = add i64 %twice, 1
  %bytes = mul i64 %more, 8
  %moved = call ptr @realloc(ptr %v, i64 %bytes)
  br label %stored
stored:
  %w = phi ptr [ %v, %loop ], [ %moved, %grow ]
  %cap2 = phi i64 [ %cap, %loop ], [ %more, %grow ]
  %a = getelementptr double, ptr %p, i64 %i
  %x = load double, ptr %a
  %b = getelementptr double, ptr %w, i64 %i
  store double %x, ptr %b
  %first = load double, ptr %w
  %fx = fmul double %first, %x
  store double %fx, ptr %w
  %s1 = fadd double %s, %fx
  %i1 = add i64 %i, 1
  %go = icmp slt i64 %i1, %n
  br i1 %go, label %loop, label %end
end:
  %last = getelementptr double, ptr %w, i64 %i
  %y = load double, ptr %last
  call void @free(ptr %w)
  %r = fmul double %s1, %y
  ret double %r
}
