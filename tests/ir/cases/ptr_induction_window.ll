; a window moved by ++p: p[1] is read before it is overwritten as p[0] of the next iteration
; arguments: Duplicated double[6], Const i64 5
; expect: gradient

define double @f(ptr %a, i64 %n) {
entry:
  %end = getelementptr double, ptr %a, i64 %n
  br label %loop

loop:
  %p = phi ptr [ %a, %entry ], [ %p1, %loop ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s1, %loop ]
  %p1 = getelementptr double, ptr %p, i64 1
  %v = load double, ptr %p1, align 8
  %w = fmul double %v, %v
  store double %w, ptr %p, align 8
  %s1 = fadd double %s, %w
  %c = icmp eq ptr %p1, %end
  br i1 %c, label %done, label %loop

done:
  ret double %s1
}
