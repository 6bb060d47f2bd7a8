; an atomic addition
; arguments: Duplicated double[2], Active double 0.5
; expect: refused UnsupportedIR

define double @f(ptr %p, double %x) {
  %v = atomicrmw fadd ptr %p, double %x seq_cst, align 8
  %r = fmul double %v, %x
  ret double %r
}
