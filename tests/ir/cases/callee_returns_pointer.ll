; a function that is not inlined returns one of two pointers it is given
; arguments: Duplicated double[2], Duplicated double[2], Active double 0.5
; expect: gradient

; Function Attrs: noinline
define internal ptr @larger(ptr %a, ptr %b) #0 {
  %x = load double, ptr %a, align 8
  %y = load double, ptr %b, align 8
  %c = fcmp ogt double %x, %y
  %p = select i1 %c, ptr %a, ptr %b
  %q = getelementptr double, ptr %p, i64 1
  ret ptr %q
}

define double @f(ptr %a, ptr %b, double %x) {
  %p = call ptr @larger(ptr %a, ptr %b)
  %v = load double, ptr %p, align 8
  %w = fmul double %v, %x
  store double %w, ptr %p, align 8
  %r = fmul double %w, %v
  ret double %r
}

attributes #0 = { noinline }
