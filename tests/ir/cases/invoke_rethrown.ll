; a call whose exceptions are caught and thrown again, and one in a function that lets none out; an
; unrelated function goes on after an exception
; arguments: Duplicated double[4], Const i64 3
; expect: gradient

declare i32 @__gxx_personality_v0(...)
declare void @abort()
declare ptr @malloc(i64)
declare void @free(ptr)

define double @square(double %x) {
  %r = fmul double %x, %x
  ret double %r
}

define i32 @unrelated() personality ptr @__gxx_personality_v0 {
  invoke void @abort() to label %fine unwind label %pad
fine:
  ret i32 0
pad:
  %caught = landingpad { ptr, i32 } catch ptr null
  ret i32 1
}

define double @f(ptr %a, i64 %n) personality ptr @__gxx_personality_v0 {
entry:
  %m = call ptr @malloc(i64 8)
  %big = icmp sgt i64 %n, 100
  br i1 %big, label %bad, label %fine

bad:
  invoke void @abort() to label %never unwind label %pad

never:
  unreachable

pad:
  %caught = landingpad { ptr, i32 } catch ptr null
  call void @free(ptr %m)
  resume { ptr, i32 } %caught

fine:
  %v = load double, ptr %a
  store double %v, ptr %m
  %e = invoke double @square(double %v) to label %on unwind label %end

end:
  %last = landingpad { ptr, i32 } catch ptr null
  call void @abort()
  unreachable

on:
  %w = load double, ptr %m
  %r = fmul double %w, %e
  call void @free(ptr %m)
  ret double %r
}
