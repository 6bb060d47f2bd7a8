; addresses kept in a table as integers
; arguments: Duplicated double[4], Active double 0.4, Const i64 1
; expect: refused MixedActivity

define double @f(ptr %a, double %x, i64 %n) {
entry:
  %t = alloca [2 x ptr]
  %b = getelementptr double, ptr %a, i64 2
  %i = ptrtoint ptr %a to i64
  %j = ptrtoint ptr %b to i64
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %l ]
  %p = phi i64 [ %i, %entry ], [ %q, %l ]
  %q = phi i64 [ %j, %entry ], [ %p, %l ]
  store i64 %p, ptr %t
  %t1 = getelementptr ptr, ptr %t, i64 1
  store i64 %q, ptr %t1
  %w = getelementptr ptr, ptr %t, i64 %n
  %z = load ptr, ptr %w
  store double %x, ptr %z
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %l, label %e
e:
  %v = load double, ptr %b
  %r = fmul double %v, %v
  ret double %r
}
