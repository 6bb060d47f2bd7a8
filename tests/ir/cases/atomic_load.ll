; atomic loads and stores
; arguments: Duplicated double[2]
; expect: gradient

define double @f(ptr %p) {
  %v = load atomic double, ptr %p seq_cst, align 8
  %r = fmul double %v, %v
  store atomic double %r, ptr %p release, align 8
  ret double %r
}
