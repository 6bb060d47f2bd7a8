; a pointer that was an integer in between
; arguments: Duplicated double[2]
; expect: refused MixedActivity

define double @f(ptr %p) {
  %i = ptrtoint ptr %p to i64
  %m = and i64 %i, -8
  %q = inttoptr i64 %m to ptr
  %v = load double, ptr %q, align 8
  %r = fmul double %v, %v
  ret double %r
}
