; structs are copied of which nothing but an integer is accessed: the rest may be floats
; arguments: Duplicated double[4], Duplicated double[4], Const i64 2
; expect: refused UnsupportedIR

define void @f(ptr %o, ptr %i, i64 %n) {
  %b = mul i64 %n, 16
  call void @llvm.memcpy.p0.p0.i64(ptr %o, ptr %i, i64 %b, i1 false)
  %at = getelementptr i8, ptr %o, i64 8
  store i8 3, ptr %at
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
