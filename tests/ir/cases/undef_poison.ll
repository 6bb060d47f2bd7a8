; undef and poison that no execution uses
; arguments: Active double 0.5, Const i64 3
; expect: gradient

define double @f(double %x, i64 %n) {
  %c = icmp eq i64 %n, 77
  %v = select i1 %c, double undef, double %x
  %w = freeze double %v
  %z = freeze double poison
  %y = select i1 %c, double %z, double %w
  %r = fmul double %y, %x
  ret double %r
}
