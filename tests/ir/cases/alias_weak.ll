; the linker may give a weak name another meaning
; arguments: Active double 0.7
; expect: refused UnknownCall

@sq = weak alias double (double), ptr @square

define double @f(double %x) {
  %z = call double @sq(double %x)
  ret double %z
}
define double @square(double %x) noinline {
  %y = fmul double %x, %x
  ret double %y
}
