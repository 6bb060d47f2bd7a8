; the exponent of a double as an integer
; arguments: Active double 0.5
; expect: refused FloatBitsInInteger

define double @f(double %x) {
  %b = bitcast double %x to i64
  %m = lshr i64 %b, 52
  %e = sub i64 %m, 1020
  %y = sitofp i64 %e to double
  %r = fmul double %y, %x
  ret double %r
}
