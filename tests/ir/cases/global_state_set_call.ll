; an opaque function stores active data into a global
; arguments: Active double 0.5
; expect: refused MixedActivity
; inlined: gradient

@g = global double 0.000000e+00

; Function Attrs: noinline
define internal void @set(double %x) #0 {
  store double %x, ptr @g, align 8
  ret void
}

define double @f(double %x) {
  call void @set(double %x)
  %v = load double, ptr @g, align 8
  %r = fmul double %v, %x
  ret double %r
}

attributes #0 = { noinline }
