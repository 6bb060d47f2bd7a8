; a double copied byte by byte
; arguments: Active double 0.5, Const i64 8
; expect: refused FloatBitsInInteger

define double @f(double %x, i64 %n) {
entry:
  %a = alloca double, align 8
  %b = alloca double, align 8
  store double %x, ptr %a, align 8
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %q = getelementptr i8, ptr %a, i64 %k
  %v = load volatile i8, ptr %q, align 1
  %w = getelementptr i8, ptr %b, i64 %k
  store volatile i8 %v, ptr %w, align 1
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %end

end:
  %r = load double, ptr %b, align 8
  ret double %r
}
