; a struct on the stack is changed and then passed by value: a call marked `tail` reads none of the
; stack, but for such a copy
; arguments: Duplicated double[2]
; expect: gradient
; function: g

%P = type { double, double }
define internal double @f(ptr noalias readonly byval(%P) align 8 %p) noinline {
  %v = load double, ptr %p
  %q = getelementptr inbounds %P, ptr %p, i32 0, i32 1
  %u = load double, ptr %q
  %r = fmul double %u, %v
  ret double %r
}
define double @g(ptr %x) {
  %s = alloca %P
  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %x, i64 16, i1 false)
  %v = load double, ptr %s
  %w = fmul double %v, %v
  store double %w, ptr %s
  %r = tail call double @f(ptr byval(%P) align 8 %s)
  ret double %r
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
