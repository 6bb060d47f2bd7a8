; the last four bytes that are cleared are half of a double
; arguments: Duplicated double[4]
; expect: refused FloatBitsInInteger

define double @f(ptr %x) {
  %at = getelementptr double, ptr %x, i64 1
  %v = load double, ptr %at
  call void @llvm.memset.p0.i64(ptr %x, i8 0, i64 12, i1 false)
  %w = load double, ptr %at
  %r = fmul double %v, %w
  ret double %r
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
