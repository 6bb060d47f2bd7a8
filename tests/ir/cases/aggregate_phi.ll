; a pair of doubles carried through a loop as one value
; arguments: Active double 0.7, Const i64 3
; expect: gradient

define double @f(double %x, i64 %n) {
entry:
  %s0 = insertvalue { double, double } undef, double %x, 0
  %s1 = insertvalue { double, double } %s0, double 1.000000e+00, 1
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %s = phi { double, double } [ %s1, %entry ], [ %t1, %loop ]
  %a = extractvalue { double, double } %s, 0
  %b = extractvalue { double, double } %s, 1
  %p = fmul double %a, %b
  %q = fadd double %p, %a
  %t0 = insertvalue { double, double } %s, double %b, 0
  %t1 = insertvalue { double, double } %t0, double %q, 1
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %end

end:
  %r = extractvalue { double, double } %t1, 1
  ret double %r
}
