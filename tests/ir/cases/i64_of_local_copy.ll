; a double is copied to local memory, and from there as an integer
; arguments: Duplicated double[4], Duplicated double[4]
; expect: refused FloatBitsInInteger
declare ptr @malloc(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define double @f(ptr noalias %a, ptr noalias %b) {
  %fr = call ptr @malloc(i64 32)
  call void @llvm.memcpy.p0.p0.i64(ptr %fr, ptr %a, i64 32, i1 true)
  %i = load volatile i64, ptr %fr
  store volatile i64 %i, ptr %b
  %v = load volatile double, ptr %b
  %r = fmul double %v, %v
  ret double %r
}
