; the bits of a double handed to a function that stores them
; arguments: Duplicated double[2]
; expect: refused FloatBitsInInteger
; inlined: gradient

define double @f(ptr %p) {
  %i = load i64, ptr %p
  %q = getelementptr double, ptr %p, i64 1
  call void @g(ptr %q, i64 %i)
  %d = load double, ptr %q
  %r = fmul double %d, %d
  ret double %r
}
define internal void @g(ptr %q, i64 %i) noinline {
  store i64 %i, ptr %q
  ret void
}
