; an external function without a rule
; arguments: Active double 0.5
; expect: refused UnknownCall

declare double @gsl(double)

define double @f(double %x) {
  %v = call double @gsl(double %x)
  ret double %v
}
