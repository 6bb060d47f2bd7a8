; the module defines a function of its own called hypot
; arguments: Active double 0.7, Active double 1.3
; expect: gradient
define internal double @hypot(double %x, double %y) noinline {
  %r = fmul double %x, %y
  ret double %r
}
define double @f(double %x, double %y) {
  %h = call double @hypot(double %x, double %y)
  %r = fmul double %h, %x
  ret double %r
}
