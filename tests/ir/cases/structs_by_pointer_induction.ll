; structs of two float types, gone through by a pointer: offsets differ by multiples of the size
; arguments: Duplicated float[4], Const i64 2
; expect: gradient
%s = type { float, float, double }
define float @f(ptr %p, i64 %k) {
entry:
  %m = alloca [4 x %s]
  br label %fill
fill:
  %i = phi i64 [ 0, %entry ], [ %i1, %fill ]
  %x = getelementptr float, ptr %p, i64 %i
  %v = load float, ptr %x
  %a = getelementptr %s, ptr %m, i64 %i
  store float %v, ptr %a
  %b = getelementptr %s, ptr %m, i64 %i, i32 1
  %vv = fmul float %v, %v
  store float %vv, ptr %b
  %c = getelementptr %s, ptr %m, i64 %i, i32 2
  %w = fpext float %vv to double
  store double %w, ptr %c
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, 4
  br i1 %more, label %fill, label %filled
filled:
  %end = getelementptr %s, ptr %m, i64 4
  br label %sum
sum:
  %q = phi ptr [ %m, %filled ], [ %q1, %sum ]
  %o = phi i64 [ 0, %filled ], [ %o1, %sum ]
  %t = phi double [ 0.0, %filled ], [ %t1, %sum ]
  %qc = getelementptr i8, ptr %q, i64 8
  %dc = load double, ptr %qc
  %twice = fmul double %dc, 2.0
  %at = getelementptr i8, ptr %m, i64 %o
  %at8 = getelementptr i8, ptr %at, i64 8
  store double %twice, ptr %at8
  %fa = load float, ptr %q
  %da = fpext float %fa to double
  %prod = fmul double %da, %twice
  %t1 = fadd double %t, %prod
  %q1 = getelementptr %s, ptr %q, i64 1
  %o1 = add i64 %o, 16
  %go = icmp ne ptr %q1, %end
  br i1 %go, label %sum, label %out
out:
  %last = getelementptr %s, ptr %m, i64 %k, i32 1
  %lf = load float, ptr %last
  %tf = fptrunc double %t1 to float
  %r = fmul float %tf, %lf
  ret float %r
}
