; A union in memory of the caller: a pointer is stored where a float was, and a float again.
; arguments: Duplicated double[1], Duplicated double[1]
; expect: refused UnsupportedIR
define double @f(ptr %u, ptr %a) {
  %x = load double, ptr %u
  %y = fmul double %x, %x
  store ptr %a, ptr %u
  %p = load ptr, ptr %u
  %v = load double, ptr %p
  %r = fmul double %y, %v
  store double %r, ptr %u
  ret double %r
}
