; parameters that have the names the engine would choose
; arguments: Duplicated double[3], Active double 0.3, Active double 0.4, Active double 0.5
; expect: gradient

define double @f(ptr %x, double %x.shadow, double %ar.seed, double %ar.derivatives) {
  %v = load double, ptr %x, align 8
  %w = fmul double %v, %x.shadow
  %u = fmul double %w, %ar.seed
  %t = fmul double %u, %ar.derivatives
  ret double %t
}
