; four bytes of some double set to zero
; arguments: Duplicated double[8], Const i64 1
; expect: refused FloatBitsInInteger
define double @f(ptr %p, i64 %k) {
entry:
  %q = getelementptr i8, ptr %p, i64 %k
  store i32 0, ptr %q, align 1
  %p1 = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %p1
  %r = fmul double %v, %v
  ret double %r
}
