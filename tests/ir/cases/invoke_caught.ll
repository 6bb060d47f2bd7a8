; the function goes on after an exception
; arguments: Duplicated double[4], Const i64 3
; expect: refused UnsupportedIR

declare i32 @__gxx_personality_v0(...)
declare void @may_throw(i64)
define double @f(ptr %a, i64 %n) personality ptr @__gxx_personality_v0 {
entry:
  %v = load double, ptr %a
  invoke void @may_throw(i64 %n) to label %fine unwind label %pad
pad:
  %caught = landingpad { ptr, i32 } catch ptr null
  br label %end
fine:
  %w = fmul double %v, %v
  br label %end
end:
  %r = phi double [ %v, %pad ], [ %w, %fine ]
  ret double %r
}
