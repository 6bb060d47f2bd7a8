; complex numbers as pairs by value: through calls that are not inlined, a loop and a branch
; arguments: Active double 0.7, Active double -0.4, Const i64 3
; expect: gradient

%complex = type { double, double }

; Function Attrs: noinline
define internal %complex @times(%complex %a, %complex %b) #0 {
  %ar = extractvalue %complex %a, 0
  %ai = extractvalue %complex %a, 1
  %br = extractvalue %complex %b, 0
  %bi = extractvalue %complex %b, 1
  %rr = fmul double %ar, %br
  %ii = fmul double %ai, %bi
  %ri = fmul double %ar, %bi
  %ir = fmul double %ai, %br
  %re = fsub double %rr, %ii
  %im = fadd double %ri, %ir
  %c0 = insertvalue %complex poison, double %re, 0
  %c1 = insertvalue %complex %c0, double %im, 1
  ret %complex %c1
}

; Function Attrs: noinline
define internal %complex @power(%complex %a, i64 %n) #0 {
entry:
  %end = icmp eq i64 %n, 0
  br i1 %end, label %one, label %more

one:
  ret %complex { double 1.000000e+00, double 0.000000e+00 }

more:
  %m = sub i64 %n, 1
  %b = call %complex @power(%complex %a, i64 %m)
  %c = call %complex @times(%complex %b, %complex %a)
  ret %complex %c
}

define double @f(double %x, double %y, i64 %n) {
entry:
  %z0 = insertvalue %complex poison, double %x, 0
  %z = insertvalue %complex %z0, double %y, 1
  %p = call %complex @power(%complex %z, i64 %n)
  %pos = fcmp ogt double %x, 0.000000e+00
  br i1 %pos, label %swap, label %join

swap:
  %q = call %complex @times(%complex %p, %complex %p)
  br label %join

join:
  %w = phi %complex [ %p, %entry ], [ %q, %swap ]
  %re = extractvalue %complex %w, 0
  %im = extractvalue %complex %w, 1
  %r = fadd double %re, %im
  ret double %r
}

attributes #0 = { noinline }
