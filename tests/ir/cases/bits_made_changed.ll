; the same, doubled as an integer
; arguments: Active double 0.5, Active double 0.7
; expect: refused FloatBitsInInteger
define internal i64 @bits(double %x, double %y) noinline {
  %p = fmul double %x, %y
  %b = bitcast double %p to i64
  ret i64 %b
}
define double @f(double %x, double %y) {
  %i = call i64 @bits(double %x, double %y)
  %j = add i64 %i, 4503599627370496
  %a = bitcast i64 %j to double
  %r = fmul double %a, %x
  ret double %r
}
