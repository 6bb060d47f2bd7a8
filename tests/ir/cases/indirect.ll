; a call through a pointer
; arguments: Active double 0.5, Const i64 3
; expect: gradient

define internal double @a(double %x) {
  %r = fmul double %x, %x
  ret double %r
}

define internal double @b(double %x) {
  %r = fneg double %x
  ret double %r
}

define double @f(double %x, i64 %n) {
  %c = icmp eq i64 %n, 3
  %q = select i1 %c, ptr @a, ptr @b
  %r = call double %q(double %x)
  ret double %r
}
