; two records of 36 bytes, packed, are cleared: the float at byte 60 is not cut
; arguments: Active double 0.7, Active double -1.3, Const i64 1
; expect: gradient

define double @f(double %x, double %y, i64 %i) {
  %records = alloca [72 x i8]
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 72, i1 false)
  store double %x, ptr %records, align 1
  %other = getelementptr i8, ptr %records, i64 60
  store double %y, ptr %other, align 1
  %start = mul i64 %i, 36
  %record = getelementptr i8, ptr %records, i64 %start
  %field = getelementptr i8, ptr %record, i64 24
  %v = load double, ptr %records, align 1
  %w = load double, ptr %field, align 1
  %r = fmul double %v, %w
  ret double %r
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
