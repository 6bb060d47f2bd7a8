; a function returns an address inside local memory, which is merged with its start
; arguments: Duplicated double[1], Active double 0.4, Const i64 1
; expect: gradient

define double @f(ptr %a, double %x, i64 %k) {
entry:
  %t = alloca [2 x double]
  %second = getelementptr double, ptr %t, i64 1
  store double %x, ptr %t
  store double %x, ptr %second
  %inner = call ptr @g(ptr %t, i64 %k)
  %c = fcmp ogt double %x, 0.1
  br i1 %c, label %moved, label %join
moved:
  %v0 = load double, ptr %a
  store double %v0, ptr %a
  br label %join
join:
  %p = phi ptr [ %inner, %moved ], [ %t, %entry ]
  %v = load double, ptr %p
  %y = fmul double %v, %v
  store double %y, ptr %second
  %w = load double, ptr %p
  %r = fmul double %w, %y
  %s = fmul double %r, %x
  ret double %s
}
define internal ptr @g(ptr %a, i64 %k) noinline {
  %p = getelementptr double, ptr %a, i64 %k
  ret ptr %p
}
