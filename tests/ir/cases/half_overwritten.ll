; half of a double overwritten by an integer
; arguments: Duplicated double[4]
; expect: refused FloatBitsInInteger

define double @f(ptr %p) {
  %v = load double, ptr %p
  %r = fmul double %v, %v
  store i32 0, ptr %p
  %w = load double, ptr %p
  %s = fmul double %r, %w
  ret double %s
}
