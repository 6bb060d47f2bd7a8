; two ways save the stack, and LLVM has joined what they restore
; arguments: Duplicated double[5], Const i64 5
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %both ]
  %total = phi double [ 0.0, %entry ], [ %sum, %both ]
  %at = getelementptr double, ptr %p, i64 %k
  %v = load double, ptr %at
  %positive = fcmp ogt double %v, 0.0
  br i1 %positive, label %one, label %other

one:
  %before.one = call ptr @llvm.stacksave.p0()
  %cell.one = alloca [5 x double], align 8
  %vv = fmul double %v, %v
  %to.one = getelementptr double, ptr %cell.one, i64 %k
  store double %vv, ptr %to.one
  call void @touch(ptr %cell.one, i64 %n)
  %a = load double, ptr %to.one
  %aa = fmul double %a, %total
  br label %both

other:
  store double 0.5, ptr %at
  %before.other = call ptr @llvm.stacksave.p0()
  %cell.other = alloca [6 x double], align 8
  %vvv = fsub double %v, 3.0
  %to.other = getelementptr double, ptr %cell.other, i64 %k
  store double %vvv, ptr %to.other
  call void @touch(ptr %cell.other, i64 %n)
  %b = load double, ptr %to.other
  %bb = fmul double %b, %v
  br label %both

both:
  %before = phi ptr [ %before.one, %one ], [ %before.other, %other ]
  %t = phi double [ %aa, %one ], [ %bb, %other ]
  call void @llvm.stackrestore.p0(ptr %before)
  %sum = fadd double %total, %t
  %k.next = add i64 %k, 1
  %on = icmp slt i64 %k.next, %n
  br i1 %on, label %loop, label %end

end:
  ret double %sum
}

define internal void @touch(ptr %c, i64 %n) noinline {
  %last = sub i64 %n, 1
  %at = getelementptr double, ptr %c, i64 %last
  store double 1.5, ptr %at
  ret void
}
declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)
