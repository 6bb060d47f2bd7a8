; a loop makes stack memory that lives until the return
; arguments: Duplicated double[5], Const i64 5
; expect: refused UnsupportedIR

define double @f(ptr %p, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 1, %entry ], [ %k.next, %loop ]
  %last = phi ptr [ %p, %entry ], [ %row, %loop ]
  %row = alloca double, i64 %k
  %half = sdiv i64 %k, 2
  %at = getelementptr double, ptr %last, i64 %half
  %x = load double, ptr %at
  %y = fmul double %x, %x
  %to = getelementptr double, ptr %row, i64 %half
  store double %y, ptr %to
  %k.next = add i64 %k, 1
  %on = icmp sle i64 %k.next, %n
  br i1 %on, label %loop, label %end

end:
  %r = load double, ptr %row
  ret double %r
}
