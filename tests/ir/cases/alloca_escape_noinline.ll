; an opaque function reads the stack through a global
; arguments: Active double 0.5
; expect: refused MixedActivity
; inlined: gradient

@g = global ptr null

; Function Attrs: noinline
define internal double @get() #0 {
  %q = load ptr, ptr @g, align 8
  %v = load double, ptr %q, align 8
  ret double %v
}

define double @f(double %x) {
  %b = alloca double, align 8
  store double %x, ptr %b, align 8
  store ptr %b, ptr @g, align 8
  %v = call double @get()
  %r = fmul double %v, %x
  ret double %r
}

attributes #0 = { noinline }
