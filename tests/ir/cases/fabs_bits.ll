; the sign bit of a double cleared by integer arithmetic: LLVM sees fabs
; arguments: Active double -0.5
; expect: gradient

define double @f(double %x) {
  %b = bitcast double %x to i64
  %m = and i64 %b, 9223372036854775807
  %y = bitcast i64 %m to double
  %r = fmul double %y, %x
  ret double %r
}
