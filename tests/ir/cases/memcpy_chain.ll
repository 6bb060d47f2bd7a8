; memory of unknown type copied by way of buffers
; arguments: Duplicated double[4], Duplicated double[4], Const i64 2
; expect: refused UnsupportedIR

declare ptr @malloc(i64)
declare void @free(ptr)
define void @f(ptr %p, ptr %q, i64 %n) {
entry:
  %a = call ptr @malloc(i64 32)
  %b = call ptr @malloc(i64 32)
  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %p, i64 32, i1 false)
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %l ]
  %x = phi ptr [ %a, %entry ], [ %y, %l ]
  %y = phi ptr [ %b, %entry ], [ %x, %l ]
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 32, i1 false)
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %l, label %e
e:
  call void @llvm.memcpy.p0.p0.i64(ptr %q, ptr %y, i64 32, i1 false)
  call void @free(ptr %a)
  call void @free(ptr %b)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
