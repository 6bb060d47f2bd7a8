; long double
; arguments: Active double 0.5
; expect: refused UnsupportedIR

define double @f(double %x) {
  %v = fpext double %x to x86_fp80
  %w = fmul x86_fp80 %v, %v
  %r = fptrunc x86_fp80 %w to double
  ret double %r
}
