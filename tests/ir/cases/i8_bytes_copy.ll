; memory copied byte by byte
; arguments: Duplicated double[2], Duplicated double[2], Const i64 16
; expect: refused FloatBitsInInteger

define void @f(ptr %o, ptr %p, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %q = getelementptr i8, ptr %p, i64 %k
  %v = load i8, ptr %q, align 1
  %w = getelementptr i8, ptr %o, i64 %k
  store volatile i8 %v, ptr %w, align 1
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %end

end:
  ret void
}
