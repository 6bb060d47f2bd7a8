; a double copied as a pointer
; arguments: Duplicated double[2], Duplicated double[2]
; expect: refused FloatBitsInInteger

define double @f(ptr %o, ptr %p) {
  %s = load ptr, ptr %p, align 8
  store ptr %s, ptr %o, align 8
  %a = load double, ptr %p, align 8
  ret double %a
}
