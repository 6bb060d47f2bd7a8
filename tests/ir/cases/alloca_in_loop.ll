; stack memory of fixed size made in a loop: the address is gone with the iteration
; arguments: Duplicated double[5], Const i64 5
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %join ]
  %s = phi double [ 1.0, %entry ], [ %s.next, %join ]
  %at = getelementptr double, ptr %p, i64 %i
  %v = load double, ptr %at, align 8
  %odd = trunc i64 %i to i1
  br i1 %odd, label %a, label %b

a:
  %one = alloca [2 x double], align 8
  %k = and i64 %n, 1
  %in = getelementptr double, ptr %one, i64 %k
  %w = fmul double %v, %s
  store double %w, ptr %in, align 8
  br label %join

b:
  %other = alloca double, align 8
  store double %v, ptr %other, align 8
  br label %join

join:
  %q = phi ptr [ %in, %a ], [ %other, %b ]
  %u = load double, ptr %q, align 8
  %uu = fmul double %u, %u
  %s.next = fadd double %s, %uu
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %end

end:
  ret double %s.next
}
