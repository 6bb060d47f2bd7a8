; a function returns an address inside an array, another one in each iteration, or new memory
; arguments: Duplicated double[6], Const i64 3
; expect: gradient

define double @f(ptr %a, i64 %n) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi double [ 0.0, %entry ], [ %total, %loop ]
  %p = call ptr @g(ptr %a, i64 %k)
  %second = getelementptr double, ptr %p, i64 1
  %third = getelementptr double, ptr %p, i64 2
  %fourth = getelementptr double, ptr %p, i64 3
  %v = load double, ptr %second
  %w = load double, ptr %third
  %u = load double, ptr %fourth
  %vw = fmul double %v, %w
  %y = fmul double %vw, %u
  store double 3.0, ptr %p
  %total = fadd double %sum, %y
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret double %total
}
define internal ptr @g(ptr %a, i64 %k) noinline {
  %c = icmp slt i64 %k, 100
  br i1 %c, label %inside, label %outside
inside:
  %p = getelementptr double, ptr %a, i64 %k
  ret ptr %p
outside:
  %q = call ptr @malloc(i64 32)
  ret ptr %q
}
declare ptr @malloc(i64)
