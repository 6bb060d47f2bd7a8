; a function that is not inlined returns a pair
; arguments: Active double 0.5
; expect: gradient

; Function Attrs: noinline
define internal { double, double } @two(double %x) #0 {
  %a = insertvalue { double, double } undef, double %x, 0
  %y = fmul double %x, %x
  %b = insertvalue { double, double } %a, double %y, 1
  ret { double, double } %b
}

define double @f(double %x) {
  %v = call { double, double } @two(double %x)
  %a = extractvalue { double, double } %v, 1
  %r = fmul double %a, %x
  ret double %r
}

attributes #0 = { noinline }
