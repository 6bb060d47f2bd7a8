; volatile accesses
; arguments: Duplicated double[2]
; expect: gradient

define double @f(ptr %p) {
  %v = load volatile double, ptr %p, align 8
  %w = load volatile double, ptr %p, align 8
  %r = fmul double %v, %w
  store volatile double %r, ptr %p, align 8
  ret double %r
}
