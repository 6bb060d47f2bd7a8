; active data in a global array
; arguments: Active double 0.5, Const i64 1
; expect: refused MixedActivity

@g = global [2 x double] zeroinitializer

; Function Attrs: noinline
define internal double @get() #0 {
  %q = getelementptr double, ptr @g, i64 1
  %v = load double, ptr %q, align 8
  ret double %v
}

define double @f(double %x, i64 %n) {
  %q = getelementptr double, ptr @g, i64 %n
  store double %x, ptr %q, align 8
  %v = call double @get()
  %r = fmul double %v, 2.000000e+00
  ret double %r
}

attributes #0 = { noinline }
