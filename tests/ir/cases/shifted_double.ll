; a double read from between two others
; arguments: Duplicated double[4]
; expect: refused FloatBitsInInteger

define double @f(ptr %p) {
  %v = load double, ptr %p
  %w = fmul double %v, %v
  store double %w, ptr %p
  %q = getelementptr i8, ptr %p, i64 4
  %z = load double, ptr %q, align 4
  ret double %z
}
