; two pointers to the same memory, with one shadow, updated in place
; arguments: Duplicated double[3], Duplicated same as 0, Const i64 3
; expect: gradient

define void @f(ptr %p, ptr %q, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %pk = getelementptr double, ptr %p, i64 %k
  %qk = getelementptr double, ptr %q, i64 %k
  %v = load double, ptr %pk, align 8
  %w = load double, ptr %qk, align 8
  %u = fmul double %v, %w
  store double %u, ptr %pk, align 8
  %w2 = load double, ptr %qk, align 8
  %u2 = fmul double %u, %w2
  store double %u2, ptr %qk, align 8
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %end

end:
  ret void
}
