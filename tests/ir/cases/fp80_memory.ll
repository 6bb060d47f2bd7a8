; long double in memory
; arguments: Active double 0.5
; expect: refused UnsupportedIR

define double @f(double %x) {
  %b = alloca x86_fp80, align 16
  %v = fpext double %x to x86_fp80
  store volatile x86_fp80 %v, ptr %b, align 16
  %w = load volatile x86_fp80, ptr %b, align 16
  %r = fptrunc x86_fp80 %w to double
  ret double %r
}
