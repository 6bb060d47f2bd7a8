; memory of unknown type is copied: which bytes are floats is not known
; arguments: Duplicated double[4], Duplicated double[4], Const i64 4
; expect: refused UnsupportedIR

define void @f(ptr %o, ptr %i, i64 %n) {
  %b = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %o, ptr %i, i64 %b, i1 false)
  ret void
}

; Function Attrs: nocallback nofree nounwind willreturn memory(argmem: readwrite)
declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly captures(none), ptr noalias readonly captures(none), i64, i1 immarg) #0

attributes #0 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
