; a comment behind a comparison for equality
; arguments: Active double 0.3
; expect: gradient

define double @f(double %x){
 %c = fcmp oeq double %x, 2.0 ; compare
 %w = select i1 %c, double 3.0, double %x
 ret double %w }
