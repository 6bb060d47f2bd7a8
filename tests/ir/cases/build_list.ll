; a linked list built, walked and freed
; arguments: Duplicated double[4], Const i64 4
; expect: gradient

%N = type { double, ptr }

declare ptr @malloc(i64)

declare void @free(ptr)

define double @f(ptr %a, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %prev = phi ptr [ null, %entry ], [ %p, %loop ]
  %p = call ptr @malloc(i64 16)
  %q = getelementptr double, ptr %a, i64 %k
  %v = load double, ptr %q, align 8
  store double %v, ptr %p, align 8
  %np = getelementptr %N, ptr %p, i32 0, i32 1
  store ptr %prev, ptr %np, align 8
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %walk.pre

walk.pre:
  br label %walk

walk:
  %w = phi ptr [ %p, %walk.pre ], [ %nx, %walk ]
  %s = phi double [ 1.000000e+00, %walk.pre ], [ %s1, %walk ]
  %x = load double, ptr %w, align 8
  %t = fmul double %s, %x
  %s1 = fadd double %t, %x
  %nn = getelementptr %N, ptr %w, i32 0, i32 1
  %nx = load ptr, ptr %nn, align 8
  call void @free(ptr %w)
  %e = icmp eq ptr %nx, null
  br i1 %e, label %end, label %walk

end:
  ret double %s1
}
