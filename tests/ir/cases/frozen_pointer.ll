; a pointer that is frozen
; arguments: Duplicated double[3], Const i64 1
; expect: gradient

define double @read(ptr %p) noinline {
  %q = freeze ptr %p
  %v = load double, ptr %q
  %s = fmul double %v, %v
  store double %s, ptr %q
  ret double %v
}

define double @f(ptr %x, i64 %k) {
  %at = getelementptr double, ptr %x, i64 %k
  %p = freeze ptr %at
  %v = load double, ptr %p
  %w = fmul double %v, %v
  store double %w, ptr %p
  %r = call double @read(ptr %p)
  %end = load double, ptr %p
  %t = fmul double %r, %end
  ret double %t
}
