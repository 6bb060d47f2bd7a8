; an address handed on as an integer, and stored through
; arguments: Duplicated double[4], Active double 0.4
; expect: refused MixedActivity
; inlined: gradient

define double @f(ptr %a, double %x) {
  %i = ptrtoint ptr %a to i64
  call void @g(i64 %i, double %x)
  %v = load double, ptr %a
  %r = fmul double %v, %v
  ret double %r
}
define internal void @g(i64 %i, double %x) noinline {
  %p = inttoptr i64 %i to ptr
  store double %x, ptr %p
  ret void
}
