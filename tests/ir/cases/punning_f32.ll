; half of a double read as a float
; arguments: Duplicated double[2]
; expect: refused FloatBitsInInteger

define float @f(ptr %p) {
  %v = load double, ptr %p, align 8
  %u = fmul double %v, %v
  store double %u, ptr %p, align 8
  %q = getelementptr i8, ptr %p, i64 4
  %w = load float, ptr %q, align 4
  ret float %w
}
