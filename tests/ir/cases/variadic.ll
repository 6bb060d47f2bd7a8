; a function that takes any number of arguments
; arguments: Active double 0.7
; expect: refused UnknownCall

define double @f(double %x) {
  %sum = call double (i32, ...) @sum_of(i32 2, double %x, double 1.5)
  %r = fmul double %sum, %x
  ret double %r
}
declare double @sum_of(i32, ...)
