; bits of floats go through integer arithmetic behind a copy of run-time length
; arguments: Duplicated double[4], Const i64 2
; expect: refused UnsupportedIR

define double @f(ptr %x, i64 %n) {
  %t = alloca [4 x i64]
  %u = alloca [4 x double]
  %b = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %t, ptr %x, i64 %b, i1 false)
  %v = load i64, ptr %t
  %w = add i64 %v, 4503599627370496
  store i64 %w, ptr %t
  call void @llvm.memcpy.p0.p0.i64(ptr %u, ptr %t, i64 %b, i1 false)
  %r = load double, ptr %u
  ret double %r
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
