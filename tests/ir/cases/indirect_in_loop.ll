; one of three functions is chosen anew in each iteration; one of them writes memory
; arguments: Duplicated double[3], Active double 0.5, Const i64 4
; expect: gradient

define internal double @a(double %x, ptr %p) {
  %r = fmul double %x, %x
  ret double %r
}

define internal double @b(double %x, ptr %p) {
  %v = load double, ptr %p, align 8
  %r = fmul double %x, %v
  store double %r, ptr %p, align 8
  ret double %v
}

define internal double @c(double %x, ptr %p) {
  %q = getelementptr double, ptr %p, i64 2
  %v = load double, ptr %q, align 8
  %r = fadd double %x, %v
  ret double %r
}

define double @f(ptr %p, double %x, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %s = phi double [ %x, %entry ], [ %t, %loop ]
  %g = phi ptr [ @c, %entry ], [ %h, %loop ]
  %t = call double %g(double %s, ptr %p)
  %odd = and i64 %k, 1
  %z = icmp eq i64 %odd, 0
  %h = select i1 %z, ptr @b, ptr @a
  %k1 = add i64 %k, 1
  %m = icmp slt i64 %k1, %n
  br i1 %m, label %loop, label %end

end:
  ret double %t
}
