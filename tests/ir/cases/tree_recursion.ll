; a search tree built by a recursive function that leaves pointers in memory of its callers' callers
; arguments: Duplicated double[4] 0.5 0.7 0.6 0.8, Const i64 4
; expect: gradient
declare ptr @malloc(i64)
declare void @free(ptr)
define internal ptr @insert(ptr %t, double %v) {
entry:
  %none = icmp eq ptr %t, null
  br i1 %none, label %new, label %old
new:
  %n = call ptr @malloc(i64 24)
  store double %v, ptr %n
  %l0 = getelementptr i8, ptr %n, i64 8
  store ptr null, ptr %l0
  %r0 = getelementptr i8, ptr %n, i64 16
  store ptr null, ptr %r0
  ret ptr %n
old:
  %w = load double, ptr %t
  %less = fcmp olt double %v, %w
  br i1 %less, label %left, label %right
left:
  %l = getelementptr i8, ptr %t, i64 8
  %lp = load ptr, ptr %l
  %ln = call ptr @insert(ptr %lp, double %v)
  store ptr %ln, ptr %l
  ret ptr %t
right:
  %r = getelementptr i8, ptr %t, i64 16
  %rp = load ptr, ptr %r
  %rn = call ptr @insert(ptr %rp, double %v)
  store ptr %rn, ptr %r
  ret ptr %t
}
define internal double @walk(ptr %t) {
entry:
  %none = icmp eq ptr %t, null
  br i1 %none, label %leaf, label %node
leaf:
  ret double 1.0
node:
  %l = getelementptr i8, ptr %t, i64 8
  %lp = load ptr, ptr %l
  %lv = call double @walk(ptr %lp)
  %r = getelementptr i8, ptr %t, i64 16
  %rp = load ptr, ptr %r
  %rv = call double @walk(ptr %rp)
  %v = load double, ptr %t
  %vl = fmul double %v, %lv
  %rr = fmul double %rv, %rv
  %s = fadd double %vl, %rr
  call void @free(ptr %t)
  ret double %s
}
define double @f(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %t = phi ptr [ null, %entry ], [ %t1, %loop ]
  %q = getelementptr double, ptr %p, i64 %i
  %v = load double, ptr %q
  %t1 = call ptr @insert(ptr %t, double %v)
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %loop, label %end
end:
  %s = call double @walk(ptr %t1)
  ret double %s
}
