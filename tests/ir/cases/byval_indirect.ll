; functions in a constant table take a struct by value, and change their copy
; arguments: Duplicated double[4], Const i64 1
; expect: refused UnknownCall
@table = constant [2 x ptr] [ptr @g, ptr @h]
define double @g(ptr byval({ double, double }) align 8 %s, i64 %k) noinline {
  %q = getelementptr double, ptr %s, i64 %k
  %v = load double, ptr %s
  store double 3.0, ptr %s
  %w = load double, ptr %q
  %r = fmul double %v, %w
  ret double %r
}
define double @h(ptr byval({ double, double }) align 8 %s, i64 %k) noinline {
  %q = getelementptr double, ptr %s, i64 %k
  %v = load double, ptr %s
  store double 7.0, ptr %s
  %w = load double, ptr %q
  %u = fmul double %v, %w
  %r = fmul double %u, %w
  ret double %r
}
define double @f(ptr %a, i64 %k) {
  %p = getelementptr ptr, ptr @table, i64 %k
  %c = load ptr, ptr %p
  %y = call double %c(ptr byval({ double, double }) align 8 %a, i64 %k)
  %v = load double, ptr %a
  %r = fmul double %v, %y
  ret double %r
}
