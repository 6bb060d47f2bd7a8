; a double read as an integer for its sign, and made a double by a bit cast
; arguments: Duplicated double[2] -0.7 0.5
; expect: gradient

define double @f(ptr %p) {
  %i = load i64, ptr %p
  %c = icmp slt i64 %i, 0
  %x = bitcast i64 %i to double
  %n = fneg double %x
  %s = select i1 %c, double %n, double %x
  %r = fmul double %s, %x
  ret double %r
}
