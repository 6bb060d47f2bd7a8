; objects with pointers to tables of functions, chosen in a loop
; arguments: Active double 0.7, Const i64 3
; expect: gradient
@square = internal constant [2 x ptr] [ptr null, ptr @area.square]
@circle = internal constant [2 x ptr] [ptr null, ptr @area.circle]
define internal double @area.square(ptr %o) noinline {
  %at = getelementptr i8, ptr %o, i64 8
  %a = load double, ptr %at
  %r = fmul double %a, %a
  ret double %r
}
define internal double @area.circle(ptr %o) noinline {
  %at = getelementptr i8, ptr %o, i64 8
  %a = load double, ptr %at
  %b = fmul double %a, %a
  %r = fmul double %b, 3.0
  ret double %r
}
define double @f(double %x, i64 %n) {
entry:
  %one = alloca { ptr, double }
  %two = alloca { ptr, double }
  store ptr @square, ptr %one
  store ptr @circle, ptr %two
  %one8 = getelementptr i8, ptr %one, i64 8
  store double %x, ptr %one8
  %two8 = getelementptr i8, ptr %two, i64 8
  store double 0.5, ptr %two8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %o = phi ptr [ %one, %entry ], [ %p, %loop ]
  %p = phi ptr [ %two, %entry ], [ %o, %loop ]
  %s = phi double [ %x, %entry ], [ %s1, %loop ]
  %vt = load ptr, ptr %o
  %slot = getelementptr i8, ptr %vt, i64 8
  %g = load ptr, ptr %slot
  %a = call double %g(ptr %o)
  %sa = fmul double %s, %a
  %s1 = fadd double %sa, %x
  %i1 = add i64 %i, 1
  %go = icmp slt i64 %i1, %n
  br i1 %go, label %loop, label %end
end:
  ret double %s1
}
