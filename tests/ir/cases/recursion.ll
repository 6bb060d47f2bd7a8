; recursion
; arguments: Active double 0.5, Const i64 3
; expect: gradient

define double @f(double %x, i64 %n) {
  %c = icmp eq i64 %n, 0
  br i1 %c, label %z, label %r

z:
  ret double %x

r:
  %m = sub i64 %n, 1
  %y = fmul double %x, %x
  %v = call double @f(double %y, i64 %m)
  %w = call double @f(double %v, i64 %m)
  ret double %w
}
