; two parameters of a function that is called are views of one array, as doubles and as floats
; arguments: Duplicated double[4]
; expect: refused FloatBitsInInteger
define double @g(ptr %p, ptr %q) noinline {
  %v = load double, ptr %p
  %w = fmul double %v, %v
  store double %w, ptr %p
  %q1 = getelementptr float, ptr %q, i64 1
  %u = load float, ptr %q1
  %d = fpext float %u to double
  %r = fmul double %d, %v
  ret double %r
}
define double @f(ptr %a) {
  %r = call double @g(ptr %a, ptr %a)
  ret double %r
}
