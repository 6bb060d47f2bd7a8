; a call that may unwind through a cleanup, as rustc writes it
; arguments: Duplicated double[4], Const i64 3
; expect: gradient

declare i32 @__gxx_personality_v0(...)
declare void @abort()

define double @f(ptr %a, i64 %n) personality ptr @__gxx_personality_v0 {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %fine ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s.next, %fine ]
  %inside = icmp ult i64 %k, 4
  br i1 %inside, label %fine, label %bad

bad:
  invoke void @abort() to label %never unwind label %pad

never:
  unreachable

pad:
  %caught = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %caught

fine:
  %p = getelementptr double, ptr %a, i64 %k
  %v = load double, ptr %p
  %square = fmul double %v, %v
  %s.next = fadd double %s, %square
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %n
  br i1 %more, label %loop, label %end

end:
  ret double %s.next
}
