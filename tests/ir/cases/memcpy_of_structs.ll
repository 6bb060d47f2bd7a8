; structs of doubles and integers swapped by memcpy and memmove
; arguments: Duplicated double[8], Const i64 2
; expect: gradient

%S = type { double, i64, double }
define double @f(ptr %p, i64 %n) {
entry:
  %t = alloca %S
  %m = call ptr @malloc(i64 72)
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %l ]
  %q = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %q
  %s = getelementptr %S, ptr %m, i64 %k
  store double %v, ptr %s
  %s1 = getelementptr %S, ptr %s, i64 0, i32 1
  store i64 %k, ptr %s1
  %s2 = getelementptr %S, ptr %s, i64 0, i32 2
  %vv = fmul double %v, %v
  store double %vv, ptr %s2
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, 3
  br i1 %c, label %l, label %e
e:
  %x = getelementptr %S, ptr %m, i64 %n
  call void @llvm.memcpy.p0.p0.i64(ptr %t, ptr %x, i64 24, i1 false)
  call void @llvm.memmove.p0.p0.i64(ptr %x, ptr %m, i64 24, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %m, ptr %t, i64 24, i1 false)
  %g2 = getelementptr %S, ptr %m, i64 1, i32 2
  %w = load double, ptr %x
  %u = load double, ptr %m
  %z = load double, ptr %g2
  %h1 = getelementptr %S, ptr %m, i64 0, i32 1
  %j = load i64, ptr %h1
  %jd = sitofp i64 %j to double
  %r = fmul double %w, %u
  %r1 = fmul double %r, %jd
  %r2 = fadd double %r1, %z
  call void @free(ptr %m)
  ret double %r2
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @malloc(i64)
declare void @free(ptr)
