; two noalias pointers to the same memory that is only read, with one shadow
; arguments: Duplicated double[3], Duplicated same as 0, Const i64 3
; expect: gradient

define double @f(ptr noalias %p, ptr noalias %q, i64 %n) {
  %v = load double, ptr %p, align 8
  %w = load double, ptr %q, align 8
  %r = fmul double %v, %w
  ret double %r
}
