; the square root, written in the machine's language
; arguments: Active double 0.7
; expect: refused UnknownCall

define double @f(double %x) {
  %root = call double asm "sqrtsd $1, $0", "=x,x"(double %x)
  %r = fmul double %root, %x
  ret double %r
}
