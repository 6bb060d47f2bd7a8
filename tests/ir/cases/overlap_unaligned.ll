; doubles at any byte of an array of doubles
; arguments: Duplicated double[8], Const i64 4
; expect: refused FloatBitsInInteger
define double @f(ptr %p, i64 %k) {
entry:
  %q = getelementptr i8, ptr %p, i64 %k
  %v = load double, ptr %q, align 1
  %w = load double, ptr %p
  %r = fmul double %v, %w
  ret double %r
}
