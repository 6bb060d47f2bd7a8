; memory that is handed out through a pointer
; arguments: Active double 0.7
; expect: gradient
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
define double @f(double %x) {
  %at = alloca ptr
  %status = call i32 @posix_memalign(ptr %at, i64 64, i64 16)
  %v = load ptr, ptr %at
  store double %x, ptr %v
  %w = getelementptr double, ptr %v, i64 1
  %xx = fmul double %x, %x
  store double %xx, ptr %w
  %a = load double, ptr %v
  %b = load double, ptr %w
  %r = fmul double %a, %b
  call void @free(ptr %v)
  ret double %r
}
