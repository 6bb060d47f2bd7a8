; a local copy of the caller's doubles, changed by a function
; arguments: Duplicated double[4], Const i64 2
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  %a = alloca [4 x double]
  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %p, i64 32, i1 false)
  %v = call double @g(ptr %a, i64 %n)
  %w = load double, ptr %p
  %r = fmul double %v, %w
  ret double %r
}
define internal double @g(ptr %a, i64 %n) noinline {
  %q = getelementptr double, ptr %a, i64 %n
  %v = load double, ptr %q
  %w = fmul double %v, %v
  store double %w, ptr %q
  %a0 = load double, ptr %a
  %r = fadd double %a0, %w
  ret double %r
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
