; the counter wraps around at 8 bits: it reaches 1, which is no multiple of its step
; arguments: Duplicated double[300], Const i32 200
; expect: gradient
define double @f(ptr %a, i32 %n) {
entry:
  %p = getelementptr double, ptr %a, i64 1
  %v = load double, ptr %p
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k2, %loop ]
  %c = phi i8 [ 0, %entry ], [ %c2, %loop ]
  %i = zext i8 %c to i64
  %q = getelementptr double, ptr %a, i64 %i
  %w = load double, ptr %q
  %w2 = fmul double %w, 1.5
  store double %w2, ptr %q
  %c2 = add i8 %c, 3
  %k2 = add nuw nsw i32 %k, 1
  %t = icmp slt i32 %k2, %n
  br i1 %t, label %loop, label %end
end:
  %r = fmul double %v, %v
  ret double %r
}
