; a function returns an address, another one in each iteration, inside memory of its first call
; arguments: Duplicated double[9], Const i64 9
; expect: gradient

define double @f(ptr %a, i64 %n) {
entry:
  %slot = alloca ptr
  store ptr null, ptr %slot
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi double [ 0.0, %entry ], [ %total, %loop ]
  %p = call ptr @g(ptr %slot, i64 %k)
  %item = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %item
  %second = getelementptr double, ptr %p, i64 1
  %third = getelementptr double, ptr %p, i64 2
  %fourth = getelementptr double, ptr %p, i64 3
  %v = load double, ptr %second
  %w = load double, ptr %third
  %u = load double, ptr %fourth
  %vw = fmul double %v, %w
  %y = fmul double %vw, %u
  store double 3.0, ptr %p
  %ahead = getelementptr double, ptr %p, i64 4
  store double %x, ptr %ahead
  %total = fadd double %sum, %y
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %last = load ptr, ptr %slot
  call void @free(ptr %last)
  ret double %total
}
define internal ptr @g(ptr %slot, i64 %k) noinline {
  %old = load ptr, ptr %slot
  %c = icmp eq ptr %old, null
  br i1 %c, label %make, label %reuse
make:
  %q = call ptr @calloc(i64 16, i64 8)
  store ptr %q, ptr %slot
  br label %reuse
reuse:
  %r = phi ptr [ %old, %0 ], [ %q, %make ]
  %at = getelementptr double, ptr %r, i64 %k
  ret ptr %at
}
declare ptr @calloc(i64, i64)
declare void @free(ptr)
