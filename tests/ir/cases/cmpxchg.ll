; compare and exchange
; arguments: Duplicated double[2], Active double 0.5
; expect: refused UnsupportedIR

define double @f(ptr %p, double %x) {
  %b = bitcast double %x to i64
  %v = cmpxchg ptr %p, i64 0, i64 %b seq_cst seq_cst, align 8
  %l = load double, ptr %p, align 8
  ret double %l
}
