; stack memory made in a branch
; arguments: Duplicated double[7], Const i64 7
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  %z = icmp sgt i64 %n, 2
  br i1 %z, label %a, label %end

a:
  %buf = alloca [4 x double], align 8
  %k = and i64 %n, 3
  %q = getelementptr double, ptr %buf, i64 %k
  %v = load double, ptr %p, align 8
  store double %v, ptr %q, align 8
  %q1 = getelementptr double, ptr %buf, i64 1
  store double 3.000000e+00, ptr %q1, align 8
  %u = load double, ptr %q, align 8
  %r = fmul double %u, %u
  br label %end

end:
  %s = phi double [ 0.000000e+00, %entry ], [ %r, %a ]
  ret double %s
}
