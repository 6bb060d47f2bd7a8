; doubles that are carried around a loop as integers
; arguments: Duplicated double[3], Const i64 2
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %l ]
  %m = phi i64 [ 0, %entry ], [ %b, %l ]
  %q = getelementptr i64, ptr %p, i64 %k
  %b = load i64, ptr %q
  %md = bitcast i64 %m to double
  %bd = bitcast i64 %b to double
  %t = fmul double %md, %bd
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %l, label %e
e:
  ret double %t
}
