; a function that is not inlined changes an index atomically, before and after it is used
; arguments: Duplicated double[2], Const i64 0, Active double 0.5
; expect: gradient

define internal void @flip(ptr %n) noinline {
  %first = cmpxchg ptr %n, i64 1, i64 2 monotonic monotonic
  %second = cmpxchg ptr %n, i64 0, i64 1 monotonic monotonic
  %third = cmpxchg ptr %n, i64 2, i64 0 monotonic monotonic
  ret void
}

define double @f(ptr %p, i64 %k, double %x) {
  %n = alloca i64
  store i64 %k, ptr %n
  call void @flip(ptr %n)
  %now = load i64, ptr %n
  %q = getelementptr double, ptr %p, i64 %now
  %a = load double, ptr %q
  %r = fmul double %a, %x
  call void @flip(ptr %n)
  ret double %r
}
