; a pointer to the stack comes back from the tape, next to direct accesses of the same stack memory
; arguments: Duplicated double[3], Active double 0.4
; expect: gradient

define double @f(ptr %a, double %x) {
entry:
  %u = alloca double, align 16
  %v = alloca double, align 8
  store double 0.000000e+00, ptr %u
  %third = getelementptr double, ptr %a, i64 2
  %before = load double, ptr %third
  br label %body

body:
  %k = phi i64 [ 5, %entry ], [ %k.next, %body ]
  %p = phi ptr [ %v, %entry ], [ %u, %body ]
  %t = phi double [ %before, %entry ], [ %t.next, %body ]
  store double %x, ptr %p
  %l = load double, ptr %u
  %t.next = fsub double %l, %t
  %k.next = add nsw i64 %k, -2
  %more = icmp ugt i64 %k, 1
  br i1 %more, label %body, label %after

after:
  store double %t.next, ptr %third
  ret double %x
}
