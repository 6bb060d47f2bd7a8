; a table of constants
; arguments: Active double 0.7, Const i64 4
; expect: gradient

@t = internal constant [4 x double] [double 1.000000e+00, double 2.000000e+00, double 3.000000e+00, double 4.000000e+00]

define double @f(double %x, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s1, %loop ]
  %q = getelementptr [4 x double], ptr @t, i64 0, i64 %k
  %v = load double, ptr %q, align 8
  %m = fmul double %s, %x
  %s1 = fadd double %m, %v
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %end

end:
  ret double %s1
}
