; a function returns memory that it allocated in an earlier call
; arguments: Duplicated double[4], Const i64 3
; expect: gradient

define double @f(ptr %a, i64 %n) {
entry:
  %slot = alloca ptr
  store ptr null, ptr %slot
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %sum = phi double [ 0.0, %entry ], [ %total, %body ]
  %p = call ptr @g(ptr %slot)
  %item = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %item
  %big = fcmp ogt double %x, 100.0
  br i1 %big, label %leave, label %body
leave:
  store double 1.0, ptr %item
  br label %body
body:
  %at = and i64 %k, 1
  %here = getelementptr double, ptr %p, i64 %at
  store double %x, ptr %here
  %second = getelementptr double, ptr %p, i64 1
  %third = getelementptr double, ptr %p, i64 0
  %v = load double, ptr %second
  %w = load double, ptr %third
  %vw = fadd double %v, %w
  %vvw = fmul double %vw, %v
  %y = fmul double %vvw, %vw
  %total = fadd double %sum, %y
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %last = load ptr, ptr %slot
  call void @free(ptr %last)
  ret double %total
}
define internal ptr @g(ptr %slot) noinline {
  %old = load ptr, ptr %slot
  %c = icmp eq ptr %old, null
  br i1 %c, label %make, label %reuse
make:
  %q = call ptr @calloc(i64 2, i64 8)
  store ptr %q, ptr %slot
  br label %reuse
reuse:
  %r = phi ptr [ %old, %0 ], [ %q, %make ]
  ret ptr %r
}
declare ptr @calloc(i64, i64)
declare void @free(ptr)
