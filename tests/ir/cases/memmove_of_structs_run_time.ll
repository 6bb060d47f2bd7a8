; structs of a number, an integer and a number move by one, and into other memory; how many is told at
; run time
; arguments: Duplicated double[5], Const i64 3
; expect: gradient

%S = type { double, i64, double }
define double @f(ptr %p, i64 %n) {
entry:
  %m = call ptr @malloc(i64 120)
  %t = call ptr @malloc(i64 120)
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
  %c = icmp slt i64 %k1, 5
  br i1 %c, label %l, label %e
e:
  %second = getelementptr %S, ptr %m, i64 1
  %bytes = mul i64 %n, 24
  call void @llvm.memmove.p0.p0.i64(ptr %second, ptr %m, i64 %bytes, i1 false)
  %all = add i64 %bytes, 48
  call void @llvm.memcpy.p0.p0.i64(ptr %t, ptr %m, i64 %all, i1 false)
  br label %r
r:
  %j = phi i64 [ 0, %e ], [ %j1, %r ]
  %sum = phi double [ 0.0, %e ], [ %sum1, %r ]
  %x = getelementptr %S, ptr %t, i64 %j
  %xd = load double, ptr %x
  %x1 = getelementptr %S, ptr %x, i64 0, i32 1
  %i = load i64, ptr %x1
  %x2 = getelementptr %S, ptr %x, i64 0, i32 2
  %d = load double, ptr %x2
  %w = sitofp i64 %i to double
  %h = fmul double %w, %d
  %g = fadd double %h, 1.0
  %a = fmul double %g, %xd
  %b = fmul double %sum, 0.5
  %sum1 = fadd double %a, %b
  %j1 = add i64 %j, 1
  %c1 = icmp slt i64 %j1, 5
  br i1 %c1, label %r, label %end
end:
  call void @free(ptr %m)
  call void @free(ptr %t)
  ret double %sum1
}
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
