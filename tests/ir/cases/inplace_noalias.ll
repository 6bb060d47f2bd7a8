; updated in place, the other argument elsewhere
; arguments: Duplicated double[3], Duplicated double[3], Const i64 3
; expect: gradient

define void @f(ptr %p, ptr %q, i64 %n) {
  %v = load double, ptr %p, align 8
  %w = load double, ptr %q, align 8
  %u = fmul double %v, %w
  store double %u, ptr %p, align 8
  ret void
}
