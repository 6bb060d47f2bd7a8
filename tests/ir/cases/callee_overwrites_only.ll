; a function that is not inlined overwrites memory it never reads
; arguments: Duplicated double[3], Active double 0.5
; expect: gradient

; Function Attrs: noinline
define internal double @set(ptr %a, double %x) #0 {
  %p = getelementptr i8, ptr %a, i64 16
  store double 0.000000e+00, ptr %p, align 8
  %q = getelementptr i8, ptr %a, i64 8
  store i64 4607182418800017408, ptr %q, align 8
  %r = fmul double %x, %x
  ret double %r
}

define double @f(ptr %a, double %x) {
  %p = getelementptr i8, ptr %a, i64 16
  %v = load double, ptr %p, align 8
  %r = call double @set(ptr %a, double %x)
  %s = fmul double %r, %v
  ret double %s
}

attributes #0 = { noinline }
