; vectors of three doubles are 32 bytes apart
; arguments: Duplicated double[16], Const i64 1, Const i64 3
; expect: gradient
define double @f(ptr %a, i64 %i, i64 %n) {
  %p = getelementptr <3 x double>, ptr %a, i64 %i
  %v = load double, ptr %p
  %q = getelementptr double, ptr %a, i64 4
  store double 3.0, ptr %q
  %r = fmul double %v, %v
  ret double %r
}
