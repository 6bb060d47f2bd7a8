; a struct of integers, floats of two kinds and a pointer, copied
; arguments: Duplicated double[6], Duplicated double[2], Active double 0.3, Const i64 1
; expect: gradient

%S = type { i64, double, i32, float, ptr }
define double @f(ptr %a, ptr %b, double %x, i64 %w) {
  %s = call ptr @malloc(i64 64)
  %t = call ptr @malloc(i64 64)
  %s1 = getelementptr %S, ptr %s, i32 0, i32 1
  %s2 = getelementptr %S, ptr %s, i32 0, i32 2
  %s3 = getelementptr %S, ptr %s, i32 0, i32 3
  %s4 = getelementptr %S, ptr %s, i32 0, i32 4
  store i64 2, ptr %s
  store double %x, ptr %s1
  store i32 1, ptr %s2
  store float 2.0, ptr %s3
  store ptr %a, ptr %s4
  %u1 = getelementptr %S, ptr %s, i32 1, i32 1
  %u2 = getelementptr %S, ptr %s, i32 1, i32 2
  %u3 = getelementptr %S, ptr %s, i32 1, i32 3
  %u4 = getelementptr %S, ptr %s, i32 1, i32 4
  %u = getelementptr %S, ptr %s, i32 1
  store i64 0, ptr %u
  store double %x, ptr %u1
  store i32 1, ptr %u2
  store float 4.0, ptr %u3
  store ptr %b, ptr %u4
  %y0 = getelementptr %S, ptr %s, i64 %w
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %t, ptr align 8 %y0, i64 32, i1 false)
  call void @fill(ptr %s)
  %t1 = getelementptr %S, ptr %t, i32 0, i32 1
  %t2 = getelementptr %S, ptr %t, i32 0, i32 2
  %t3 = getelementptr %S, ptr %t, i32 0, i32 3
  %t4 = getelementptr %S, ptr %t, i32 0, i32 4
  %n = load i64, ptr %t
  %m = load i32, ptr %t2
  %m64 = sext i32 %m to i64
  %p = load ptr, ptr %t4
  %y = load double, ptr %t1
  %z = load float, ptr %t3
  %i = add i64 %n, %m64
  %pp = getelementptr double, ptr %p, i64 %i
  %v = load double, ptr %pp
  %zd = fpext float %z to double
  %r = fmul double %v, %y
  %r2 = fmul double %r, %zd
  %sx = load double, ptr %s1
  %r3 = fmul double %r2, %sx
  call void @free(ptr %s)
  call void @free(ptr %t)
  ret double %r3
}
define internal void @fill(ptr %s) noinline {
  %s1 = getelementptr %S, ptr %s, i32 0, i32 1
  %v = load double, ptr %s1
  %w = fmul double %v, 3.0
  store double %w, ptr %s1
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @malloc(i64)
declare void @free(ptr)
