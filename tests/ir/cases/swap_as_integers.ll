; two doubles swapped as integers; one is then read as a double
; arguments: Duplicated double[4]
; expect: gradient

define double @f(ptr %a) {
  %b = getelementptr double, ptr %a, i64 1
  %i = load i64, ptr %a
  %j = load i64, ptr %b
  store i64 %j, ptr %a
  store i64 %i, ptr %b
  %v = load double, ptr %a
  %r = fmul double %v, %v
  ret double %r
}
