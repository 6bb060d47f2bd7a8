; the same, through a select
; arguments: Duplicated double[5], Const i64 5
; expect: gradient

declare ptr @malloc(i64)

define double @f(ptr %p, i64 %n) {
entry:
  br label %head

head:
  %k = phi i64 [ 0, %entry ], [ %k1, %latch ]
  %prev = phi ptr [ null, %entry ], [ %q, %latch ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s1, %latch ]
  %q = call ptr @malloc(i64 8)
  %first = icmp eq i64 %k, 0
  %tgt = select i1 %first, ptr %q, ptr %prev
  store double 5.000000e-01, ptr %tgt, align 8
  br label %body

body:
  %pk = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %pk, align 8
  store double %v, ptr %q, align 8
  %odd = and i64 %k, 1
  %c0 = icmp eq i64 %odd, 0
  br i1 %c0, label %u, label %latch

u:
  %ww0 = load volatile double, ptr %q, align 8
  %ww = fmul double %ww0, %ww0
  br label %latch

latch:
  %add = phi double [ 0.000000e+00, %body ], [ %ww, %u ]
  %s1 = fadd double %s, %add
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %head, label %end

end:
  ret double %s1
}
