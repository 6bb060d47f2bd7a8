; a call without arguments changes a global that the reverse sweep needs as it was
; arguments: Active double 0.7
; expect: gradient

@g = internal global [2 x double] [double 3.000000e+00, double 4.000000e+00]

; Function Attrs: noinline
define internal void @step() #0 {
  %a = load double, ptr @g, align 8
  %b = fmul double %a, 1.500000e+00
  store double %b, ptr @g, align 8
  ret void
}

define double @f(double %x) {
  store double 3.000000e+00, ptr @g, align 8
  %w = load double, ptr @g, align 8
  call void @step()
  %w2 = load double, ptr @g, align 8
  %r = fmul double %x, %w2
  %t = fmul double %r, %x
  call void @step()
  %rr = fmul double %t, 1.000000e+00
  ret double %rr
}

attributes #0 = { noinline }
