; the same in a function that is not inlined
; arguments: Duplicated double[1], Active double 0.5
; expect: refused MixedActivity
; inlined: gradient

@g = global ptr null

; Function Attrs: noinline
define internal void @set(ptr %p) #0 {
  store ptr %p, ptr @g, align 8
  ret void
}

define double @f(ptr %p, double %x) {
  call void @set(ptr %p)
  %q = load ptr, ptr @g, align 8
  %v = load double, ptr %q, align 8
  %r = fmul double %v, %x
  ret double %r
}

attributes #0 = { noinline }
