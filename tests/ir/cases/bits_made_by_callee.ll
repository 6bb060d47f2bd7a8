; the bits of a product, from a function that takes floats: no derivative of the call
; arguments: Active double 0.5, Active double 0.7
; expect: refused FloatBitsInInteger
; inlined: gradient
define internal i64 @bits(double %x, double %y) noinline {
  %p = fmul double %x, %y
  %b = bitcast double %p to i64
  ret i64 %b
}
define double @f(double %x, double %y) {
  %i = call i64 @bits(double %x, double %y)
  %a = bitcast i64 %i to double
  %r = fmul double %a, %x
  ret double %r
}
