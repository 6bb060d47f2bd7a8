; pointers swapped as integers in a loop; LLVM makes addresses of integers
; arguments: Duplicated double[4], Duplicated double[4], Const i64 1, Const i64 2
; expect: refused MixedActivity

define double @f(ptr %a, ptr %b, i64 %n, i64 %m) {
entry:
  %s = alloca [2 x ptr]
  %s1 = getelementptr ptr, ptr %s, i64 1
  store ptr %a, ptr %s
  store ptr %b, ptr %s1
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %l ]
  %q = getelementptr ptr, ptr %s, i64 %n
  %x = load i64, ptr %s
  %y = load i64, ptr %q
  store i64 %y, ptr %s
  store i64 %x, ptr %q
  %k1 = add i64 %k, 1
  %p = load ptr, ptr %s
  %v = load double, ptr %p
  %vv = fmul double %v, %v
  store double %vv, ptr %p
  %c = icmp slt i64 %k1, %m
  br i1 %c, label %l, label %e
e:
  %r = load double, ptr %b
  ret double %r
}
