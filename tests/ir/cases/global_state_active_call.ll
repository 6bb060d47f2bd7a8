; an opaque function reads active data from a global
; arguments: Active double 0.5
; expect: refused MixedActivity
; inlined: gradient

@g = global double 0.000000e+00

; Function Attrs: noinline
define internal double @get() #0 {
  %v = load double, ptr @g, align 8
  ret double %v
}

define double @f(double %x) {
  store double %x, ptr @g, align 8
  %v = call double @get()
  %r = fmul double %v, %x
  ret double %r
}

attributes #0 = { noinline }
