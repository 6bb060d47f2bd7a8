; the same on the stack
; arguments: Active double 0.7, Const i64 5
; expect: gradient

define double @f(double %x, i64 %n) {
entry:
  %buf = alloca [4 x double], align 8
  %p1 = getelementptr double, ptr %buf, i64 1
  store double %x, ptr %p1, align 8
  %p2 = getelementptr double, ptr %buf, i64 2
  store double 1.000000e+00, ptr %p2, align 8
  store double %x, ptr %buf, align 8
  %c = icmp sgt i64 %n, 2
  %q = select i1 %c, ptr %p1, ptr %p2
  %s = load double, ptr %q, align 8
  store i64 0, ptr %q, align 4
  %m = and i64 %n, 1
  %p3 = getelementptr double, ptr %buf, i64 %m
  %t = load double, ptr %p3, align 8
  %u = load double, ptr %p2, align 8
  %r0 = fmul double %t, %s
  %r = fadd double %r0, %u
  ret double %r
}
