; functions of the C library with a result in memory, and LLVM's with two results
; arguments: Active double -3.7, Active double 2.25, Duplicated double[2]
; expect: gradient

define double @f(double %x, double %y, ptr %m) {
  %e.at = alloca i32
  %s.at = alloca double
  %c.at = alloca double
  %part = call double @modf(double %x, ptr %m)
  %fraction = call double @frexp(double %y, ptr %e.at)
  call void @sincos(double %x, ptr %s.at, ptr %c.at)
  %e = load i32, ptr %e.at
  %s = load double, ptr %s.at
  %c = load double, ptr %c.at
  %double = call double @scalbn(double %fraction, i32 %e)
  %both = call { double, double } @llvm.sincos.f64(double %y)
  %s2 = extractvalue { double, double } %both, 0
  %c2 = extractvalue { double, double } %both, 1
  %whole = load double, ptr %m
  %t0 = fmul double %part, %whole
  %t1 = fmul double %fraction, %double
  %t2 = fmul double %s, %c2
  %t3 = fmul double %c, %s2
  %u0 = fadd double %t0, %t1
  %u1 = fmul double %t2, %t3
  %r = fadd double %u0, %u1
  ret double %r
}
declare double @modf(double, ptr)
declare double @frexp(double, ptr)
declare double @scalbn(double, i32)
declare void @sincos(double, ptr, ptr)
declare { double, double } @llvm.sincos.f64(double)
