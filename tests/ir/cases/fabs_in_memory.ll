; the sign bit of a double in memory cleared by integer arithmetic, nothing else shows that it is one
; arguments: Duplicated double[3] -0.3 0.4 0.5
; expect: gradient

define double @f(ptr %p) {
  %i = load i64, ptr %p
  %n = and i64 %i, 9223372036854775807
  store i64 %n, ptr %p
  %d = load double, ptr %p
  %r = fmul double %d, %d
  %r2 = fmul double %r, %d
  ret double %r2
}
