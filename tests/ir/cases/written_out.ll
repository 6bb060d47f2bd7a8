; active numbers are printed, and text is made of them
; arguments: Duplicated double[3], Const i64 1
; expect: gradient

@text = private constant [3 x i8] c"%g\00"
@stderr = external global ptr
define double @f(ptr %x, i64 %n) {
  %buffer = alloca [32 x i8]
  %v = load double, ptr %x
  %w = fmul double %v, %v
  store double %w, ptr %x
  %i = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buffer, i64 32, ptr @text, double %w)
  %many = icmp sgt i64 %n, 5
  br i1 %many, label %told, label %end
told:
  %to = load ptr, ptr @stderr
  %j = call i32 (ptr, ptr, ...) @fprintf(ptr %to, ptr @text, double %w)
  br label %end
end:
  %r = fmul double %w, %v
  ret double %r
}
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @fprintf(ptr, ptr, ...)
