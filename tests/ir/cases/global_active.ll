; active data in a global has no shadow
; arguments: Active double 0.7, Const i64 1
; expect: refused MixedActivity

@t = internal global [4 x double] zeroinitializer

define double @f(double %x, i64 %n) {
  %q = getelementptr double, ptr @t, i64 %n
  store double %x, ptr %q, align 8
  %q1 = getelementptr double, ptr @t, i64 1
  %v = load double, ptr %q1, align 8
  %r = fmul double %v, %x
  ret double %r
}
