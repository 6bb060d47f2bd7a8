; an address handed on as an integer, and read through
; arguments: Duplicated double[4], Active double 0.4
; expect: refused MixedActivity
; inlined: gradient

define double @f(ptr %a, double %x) {
  %i = ptrtoint ptr %a to i64
  %v = call double @g(i64 %i, double %x)
  %r = fmul double %v, %x
  ret double %r
}
define internal double @g(i64 %i, double %x) noinline {
  %p = inttoptr i64 %i to ptr
  %v = load double, ptr %p
  ret double %v
}
