; the product wraps around at 32 bits, to 1: an index that is no multiple of three
; arguments: Duplicated double[8], Const i32 -1431655765
; expect: gradient
define double @f(ptr %a, i32 %k) {
  %p = getelementptr double, ptr %a, i64 1
  %v = load double, ptr %p
  %m = mul i32 %k, 3
  %i = zext i32 %m to i64
  %q = getelementptr double, ptr %a, i64 %i
  store double 5.0, ptr %q
  %r = fmul double %v, %v
  ret double %r
}
