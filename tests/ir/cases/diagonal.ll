; the diagonal of a matrix as C has it, an array of rows: one counter is both subscripts
; arguments: Duplicated double[9], Const i64 3
; expect: gradient

define double @f(ptr noalias %x, i64 %n) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi double [ 0.0, %entry ], [ %sum, %loop ]
  %at = getelementptr [3 x double], ptr %x, i64 %k, i64 %k
  %v = load double, ptr %at
  %square = fmul double %v, %v
  store double %square, ptr %at
  %sum = fadd double %s, %square
  %next = add nuw nsw i64 %k, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret double %sum
}
