; an array descriptor, as Fortran compilers pass it
; arguments: Duplicated double[6], Const i64 3
; expect: gradient

%desc = type { ptr, i64, i32, i8, i8, i8, i8, [1 x [3 x i64]] }
define double @f(ptr %a, i64 %n) {
entry:
  %d = alloca %desc, align 8
  %v0 = insertvalue %desc { ptr undef, i64 8, i32 20240719, i8 1, i8 28, i8 0, i8 0, [1 x [3 x i64]] [[3 x i64] [i64 1, i64 undef, i64 8]] }, ptr %a, 0
  %v1 = insertvalue %desc %v0, i64 %n, 7, 0, 1
  store %desc %v1, ptr %d, align 8
  %r = call double @sumdesc(ptr %d)
  ret double %r
}
define internal double @sumdesc(ptr %d) noinline {
entry:
  %e = alloca %desc, align 8
  call void @llvm.memcpy.p0.p0.i32(ptr %e, ptr %d, i32 48, i1 false)
  %np = getelementptr %desc, ptr %e, i32 0, i32 7, i64 0, i64 1
  %n = load i64, ptr %np
  %a = load ptr, ptr %e
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %b ]
  %s = phi double [ 1.0, %entry ], [ %s1, %b ]
  %c = icmp slt i64 %k, %n
  br i1 %c, label %b, label %x
b:
  %o = mul nsw i64 %k, 8
  %p = getelementptr i8, ptr %a, i64 %o
  %v = load double, ptr %p
  %s1 = fmul fast double %s, %v
  store double %s1, ptr %p
  %k1 = add nsw i64 %k, 1
  br label %l
x:
  ret double %s
}
declare void @llvm.memcpy.p0.p0.i32(ptr, ptr, i32, i1)
