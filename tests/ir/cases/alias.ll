; functions by second names: what is differentiated (Zig), and what it calls (C++)
; arguments: Active double 0.7
; expect: gradient

@text = constant [5 x i8] c"@sq. "
@f = alias double (double), ptr @own
@sq = hidden unnamed_addr alias double (double), ptr @square
@again = internal alias double (double), ptr @sq

define internal double @own(double %x) {
  %y = call double @again(double %x)
  %z = call double @sq(double %y)
  ret double %z
}
define internal double @square(double %x) noinline {
  %y = fmul double %x, %x
  ret double %y
}
