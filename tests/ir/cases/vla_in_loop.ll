; stack memory of variable size is made, and the stack restored, in each iteration
; arguments: Duplicated double[5], Const i64 5
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  br label %outer

outer:
  %k = phi i64 [ 1, %entry ], [ %k.next, %outer.end ]
  %total = phi double [ 0.0, %entry ], [ %s.next, %outer.end ]
  %before = call ptr @llvm.stacksave.p0()
  %row = alloca double, i64 %k, align 32
  br label %fill

fill:
  %i = phi i64 [ 0, %outer ], [ %i.next, %fill ]
  %at = getelementptr double, ptr %p, i64 %i
  %v = load double, ptr %at
  %w = fmul double %v, %total
  %u = fadd double %w, %v
  %to = getelementptr double, ptr %row, i64 %i
  store double %u, ptr %to
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %k
  br i1 %more, label %fill, label %sum

sum:
  %j = phi i64 [ 0, %fill ], [ %j.next, %sum ]
  %s = phi double [ 0.0, %fill ], [ %s.next, %sum ]
  %q = getelementptr double, ptr %row, i64 %j
  %x = load double, ptr %q
  %xx = fmul double %x, %x
  %s.next = fadd double %s, %xx
  %j.next = add i64 %j, 1
  %again = icmp slt i64 %j.next, %k
  br i1 %again, label %sum, label %outer.end

outer.end:
  call void @llvm.stackrestore.p0(ptr %before)
  %k.next = add i64 %k, 1
  %on = icmp sle i64 %k.next, %n
  br i1 %on, label %outer, label %end

end:
  ret double %s.next
}
declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)
