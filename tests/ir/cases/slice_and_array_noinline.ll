; two parameters of a function that is called point into one array, at different places
; arguments: Duplicated double[4]
; expect: gradient
define double @g(ptr %p, ptr %q) noinline {
  %v = load double, ptr %q
  %p1 = getelementptr double, ptr %p, i64 1
  %w = fmul double %v, %v
  store double %w, ptr %p1
  %u = load double, ptr %q
  store double 3.0, ptr %p
  %r = fmul double %u, %v
  ret double %r
}
define double @f(ptr %a) {
  %q = getelementptr double, ptr %a, i64 1
  %r = call double @g(ptr %a, ptr %q)
  ret double %r
}
