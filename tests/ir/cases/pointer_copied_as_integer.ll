; a pointer copied as an integer, and followed elsewhere
; arguments: Duplicated double[4], Duplicated double[4], Const i64 1
; expect: gradient

define double @f(ptr %a, ptr %b, i64 %n) {
  %s = call ptr @malloc(i64 16)
  %s1 = getelementptr ptr, ptr %s, i64 1
  store ptr %a, ptr %s
  store ptr %b, ptr %s1
  %t = call ptr @malloc(i64 16)
  %q = getelementptr ptr, ptr %s, i64 %n
  %w = load i64, ptr %q
  store i64 %w, ptr %t
  call void @use(ptr %t)
  %v = load double, ptr %b
  %r = fmul double %v, %v
  ret double %r
}
define internal void @use(ptr %t) noinline {
  %p = load ptr, ptr %t
  %v = load double, ptr %p
  %r = fmul double %v, %v
  store double %r, ptr %p
  ret void
}
declare ptr @malloc(i64)
