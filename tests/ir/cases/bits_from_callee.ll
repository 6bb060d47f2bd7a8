; the bits of a double returned by a function that loads them
; arguments: Duplicated double[2]
; expect: refused FloatBitsInInteger
; inlined: gradient

define double @f(ptr %p) {
  %i = call i64 @g(ptr %p)
  %d = bitcast i64 %i to double
  %r = fmul double %d, %d
  ret double %r
}
define internal i64 @g(ptr %q) noinline {
  %i = load i64, ptr %q
  ret i64 %i
}
