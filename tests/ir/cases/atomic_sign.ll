; an atomic update changes the sign of an active float
; arguments: Duplicated double[2], Active double 0.5
; expect: refused UnsupportedIR

define double @f(ptr %p, double %x) {
  %old = atomicrmw xor ptr %p, i64 -9223372036854775808 seq_cst, align 8
  %a = load double, ptr %p
  %r = fmul double %a, %x
  ret double %r
}
