; pointers copied as memory by a function that cannot be seen through
; arguments: Duplicated double[4], Duplicated double[4], Const i64 1
; expect: refused UnsupportedIR
; inlined: gradient

define double @f(ptr %a, ptr %b, i64 %n) {
  %s = call ptr @malloc(i64 16)
  %s1 = getelementptr ptr, ptr %s, i64 1
  store ptr %a, ptr %s
  store ptr %b, ptr %s1
  %t = call ptr @malloc(i64 16)
  call void @copy(ptr %t, ptr %s)
  %q = getelementptr ptr, ptr %t, i64 %n
  %p = load ptr, ptr %q
  %v = load double, ptr %p
  %r = fmul double %v, %v
  call void @free(ptr %s)
  call void @free(ptr %t)
  ret double %r
}
define internal void @copy(ptr %t, ptr %s) noinline {
  call void @llvm.memcpy.p0.p0.i64(ptr %t, ptr %s, i64 16, i1 false)
  ret void
}
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
