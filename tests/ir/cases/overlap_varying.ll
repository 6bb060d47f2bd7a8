; doubles and floats in one array, at offsets that only the caller knows
; arguments: Duplicated double[8], Const i64 3
; expect: refused FloatBitsInInteger
define double @f(ptr %p, i64 %k) {
entry:
  %q = getelementptr float, ptr %p, i64 %k
  %half = load float, ptr %q
  %wide = fpext float %half to double
  %p1 = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %p1
  %r = fmul double %v, %wide
  ret double %r
}
