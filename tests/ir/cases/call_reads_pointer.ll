; a function that is not inlined reads the stack
; arguments: Active double 0.5
; expect: gradient

; Function Attrs: noinline
define internal double @get(ptr %p) #0 {
  %v = load double, ptr %p, align 8
  ret double %v
}

define double @f(double %x) {
  %b = alloca double, align 8
  store double %x, ptr %b, align 8
  %v = call double @get(ptr %b)
  %r = fmul double %v, 2.000000e+00
  ret double %r
}

attributes #0 = { noinline }
