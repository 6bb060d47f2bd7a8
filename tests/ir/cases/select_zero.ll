; an integer zero stored over a double through a chosen pointer
; arguments: Duplicated double[4], Const i64 4
; expect: gradient

define double @f(ptr %p, i64 %n) {
  %p1 = getelementptr double, ptr %p, i64 1
  %p2 = getelementptr double, ptr %p, i64 2
  %v = load double, ptr %p1, align 8
  %c = icmp sgt i64 %n, 2
  %q = select i1 %c, ptr %p1, ptr %p2
  store i64 0, ptr %q, align 4
  %r = fmul double %v, %v
  ret double %r
}
