; the length of a copy of floats is told at run time, in bytes
; arguments: Duplicated double[4], Duplicated double[4], Const i64 24
; expect: gradient

define double @f(ptr %x, ptr %y, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 %n, i1 false)
  %r = load double, ptr %y
  %q = load double, ptr %x
  %s = fmul double %r, %q
  ret double %s
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
