; a pointer to active memory passes through a global
; arguments: Duplicated double[1], Active double 0.5
; expect: gradient

@g = global ptr null

define double @f(ptr %p, double %x) {
  store ptr %p, ptr @g, align 8
  %q = load ptr, ptr @g, align 8
  %v = load double, ptr %q, align 8
  %r = fmul double %v, %x
  ret double %r
}
