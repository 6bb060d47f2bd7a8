; a function that is not inlined reads a half of some double
; arguments: Duplicated double[8], Const i64 2
; expect: refused FloatBitsInInteger
define double @half(ptr %p, i64 %k) noinline {
  %q = getelementptr float, ptr %p, i64 %k
  %v = load float, ptr %q
  %wide = fpext float %v to double
  ret double %wide
}
define double @f(ptr %p, i64 %k) {
entry:
  %h = call double @half(ptr %p, i64 %k)
  %p1 = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %p1
  %r = fmul double %v, %h
  ret double %r
}
