; the absolute value and the angle of complex numbers, in both precisions
; arguments: Active float 0.4, Active double -0.8
; expect: gradient
target triple = "x86_64-unknown-linux-gnu"
declare double @cabs(double, double)
declare double @carg(double, double)
declare float @cabsf(<2 x float>)
declare float @cargf(<2 x float>)
define double @f(float %as, double %b) {
  %a = fpext float %as to double
  %m = tail call double @cabs(double %a, double %b)
  %p = tail call double @carg(double %a, double %b)
  %re = insertelement <2 x float> poison, float %as, i64 0
  %z = insertelement <2 x float> %re, float 1.5, i64 1
  %ms = tail call float @cabsf(<2 x float> %z)
  %ps = tail call float @cargf(<2 x float> %z)
  %mp = fmul double %m, %p
  %s = fmul float %ms, %ps
  %d = fpext float %s to double
  %r = fadd double %mp, %d
  ret double %r
}
