; the bits of a double handed to a function that makes a double of them
; arguments: Duplicated double[2]
; expect: refused FloatBitsInInteger
; inlined: gradient

define double @f(ptr %p) {
  %i = load i64, ptr %p
  %d = call double @g(i64 %i)
  %r = fmul double %d, %d
  ret double %r
}
define internal double @g(i64 %i) noinline {
  %d = bitcast i64 %i to double
  ret double %d
}
