; a pointer into a constant table, by a constant expression, or to the argument
; arguments: Duplicated double[3], Const i32 1
; expect: gradient

@table = internal constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.0]

define double @f(ptr %x, i32 %n) {
entry:
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %next, %loop ]
  %sum = phi double [ 1.0, %entry ], [ %more, %loop ]
  %c = icmp eq i32 %k, %n
  %p = select i1 %c, ptr getelementptr inbounds ([4 x double], ptr @table, i64 0, i64 1), ptr %x
  %v = load double, ptr %p
  %at = getelementptr double, ptr %p, i64 2
  %w = load double, ptr %at
  %vw = fmul double %v, %w
  %more = fmul double %sum, %vw
  %next = add i32 %k, 1
  %done = icmp sgt i32 %next, 2
  br i1 %done, label %end, label %loop
end:
  ret double %more
}
