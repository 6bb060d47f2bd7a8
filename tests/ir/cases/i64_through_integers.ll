; doubles copied through a local array of integers, in loops
; arguments: Duplicated double[4], Active double 0.5, Const i64 3
; expect: refused FloatBitsInInteger
define double @f(ptr noalias %a, double %x, i64 %n) {
entry:
  %t = alloca [8 x i64]
  %m = alloca [8 x double]
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k2, %loop ]
  %p = getelementptr i64, ptr %a, i64 %k
  %i = load i64, ptr %p
  %q = getelementptr i64, ptr %t, i64 %k
  store volatile i64 %i, ptr %q
  %k2 = add i64 %k, 1
  %c = icmp slt i64 %k2, %n
  br i1 %c, label %loop, label %two
two:
  %j = phi i64 [ 0, %loop ], [ %j2, %two ]
  %q2 = getelementptr i64, ptr %t, i64 %j
  %i2 = load volatile i64, ptr %q2
  %m2 = getelementptr i64, ptr %m, i64 %j
  store i64 %i2, ptr %m2
  %j2 = add i64 %j, 1
  %d = icmp slt i64 %j2, %n
  br i1 %d, label %two, label %end
end:
  %m3 = getelementptr double, ptr %m, i64 %n
  %m4 = getelementptr double, ptr %m3, i64 -1
  %v = load double, ptr %m4
  %r = fmul double %v, %x
  ret double %r
}
