; stack memory of variable size
; arguments: Duplicated double[7], Const i64 7
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  %buf = alloca double, i64 %n, align 8
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %pk = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %pk, align 8
  %w = fmul double %v, %v
  %m = sub i64 %n, 1
  %kk = sub i64 %m, %k
  %bk = getelementptr double, ptr %buf, i64 %kk
  store double %w, ptr %bk, align 8
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %mid

mid:
  br label %l2

l2:
  %j = phi i64 [ 0, %mid ], [ %j1, %l2 ]
  %s = phi double [ 0.000000e+00, %mid ], [ %s1, %l2 ]
  %bj = getelementptr double, ptr %buf, i64 %j
  %u = load double, ptr %bj, align 8
  %uu = fmul double %u, %u
  %s1 = fadd double %s, %uu
  %j1 = add i64 %j, 1
  %d = icmp slt i64 %j1, %n
  br i1 %d, label %l2, label %end

end:
  ret double %s1
}
