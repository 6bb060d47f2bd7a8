; memory of unknown type is copied, changed as integers, and copied back
; arguments: Duplicated double[4], Duplicated double[4], Const i64 2
; expect: refused UnsupportedIR

define void @f(ptr %o, ptr %x, i64 %n) {
  %t = alloca [4 x i64]
  %b = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %t, ptr %x, i64 %b, i1 false)
  %v = load i64, ptr %t
  %w = add i64 %v, 4503599627370496
  store i64 %w, ptr %t
  call void @llvm.memcpy.p0.p0.i64(ptr %o, ptr %t, i64 %b, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
