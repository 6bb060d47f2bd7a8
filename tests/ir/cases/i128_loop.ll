; an induction variable of 128 bits
; arguments: Duplicated double[3], Const i64 3
; function: g
; expect: gradient

define double @f(ptr %p, i128 %n) {
entry:
  br label %loop

loop:
  %k = phi i128 [ 0, %entry ], [ %k1, %loop ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s1, %loop ]
  %pk = getelementptr double, ptr %p, i128 %k
  %v = load double, ptr %pk, align 8
  %w = fmul double %v, %v
  %s1 = fadd double %w, %s
  %k1 = add i128 %k, 1
  %c = icmp slt i128 %k1, %n
  br i1 %c, label %loop, label %end

end:
  ret double %s1
}

define double @g(ptr %p, i64 %n) {
  %m = sext i64 %n to i128
  %r = call double @f(ptr %p, i128 %m)
  ret double %r
}
