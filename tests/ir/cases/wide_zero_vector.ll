; zeros of vectors of types that have literals of their own: half and x86_fp80
; arguments: Duplicated double[2], Const i64 2
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  %a = load double, ptr %p
  br label %l
l:
  %i = phi i64 [ 0, %entry ], [ %i2, %l ]
  %v = phi <2 x x86_fp80> [ zeroinitializer, %entry ], [ %w, %l ]
  %h = phi <2 x half> [ zeroinitializer, %entry ], [ %g, %l ]
  %id = sitofp i64 %i to x86_fp80
  %ih = sitofp i64 %i to half
  %y = insertelement <2 x x86_fp80> splat (x86_fp80 0xK3FFF8000000000000000), x86_fp80 %id, i64 0
  %z = insertelement <2 x half> splat (half 0xH3C00), half %ih, i64 0
  %w = fadd <2 x x86_fp80> %v, %y
  %g = fadd <2 x half> %h, %z
  %i2 = add i64 %i, 1
  %k = icmp slt i64 %i2, %n
  br i1 %k, label %l, label %end
end:
  %e = extractelement <2 x x86_fp80> %w, i64 1
  %u = extractelement <2 x half> %g, i64 0
  %d = fptrunc x86_fp80 %e to double
  %du = fpext half %u to double
  %r = fmul double %d, %a
  %s = fmul double %r, %du
  ret double %s
}
