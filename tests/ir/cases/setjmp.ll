; control comes back to where it was, by no edge
; arguments: Duplicated double[2]
; expect: refused UnsupportedIR

@buffer = internal global [200 x i8] zeroinitializer

define double @f(ptr %x) {
entry:
  %y = alloca double
  store double 0.0, ptr %y
  %again = call i32 @_setjmp(ptr @buffer) returns_twice
  %first = icmp eq i32 %again, 0
  br i1 %first, label %jump, label %end
jump:
  %v = load double, ptr %x
  %w = fmul double %v, %v
  store volatile double %w, ptr %y
  %large = fcmp ogt double %w, 0.0
  br i1 %large, label %back, label %end
back:
  call void @longjmp(ptr @buffer, i32 1) noreturn
  unreachable
end:
  %r = load volatile double, ptr %y
  ret double %r
}
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
