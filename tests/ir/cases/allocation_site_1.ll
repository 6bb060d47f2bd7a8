; memory of an earlier pass of the same allocation site is written
; arguments: Duplicated double[5], Const i64 5
; expect: gradient

declare ptr @malloc(i64)

define double @f(ptr %p, i64 %n) {
entry:
  %first = call ptr @malloc(i64 8)
  store double 1.000000e+00, ptr %first, align 8
  br label %head

head:
  %k = phi i64 [ 0, %entry ], [ %k1, %latch ]
  %prev = phi ptr [ %first, %entry ], [ %q, %latch ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s1, %latch ]
  %q = call ptr @malloc(i64 8)
  store double 5.000000e-01, ptr %prev, align 8
  %odd = and i64 %k, 1
  %c0 = icmp eq i64 %odd, 0
  %pk = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %pk, align 8
  store double %v, ptr %q, align 8
  br i1 %c0, label %u, label %latch

u:
  %w = load double, ptr %q, align 8
  %ww = fmul double %w, %w
  br label %latch

latch:
  %add = phi double [ 0.000000e+00, %head ], [ %ww, %u ]
  %s1 = fadd double %s, %add
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %head, label %end

end:
  ret double %s1
}
