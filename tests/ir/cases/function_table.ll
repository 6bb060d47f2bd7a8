; calls through a constant array of functions, one of them known by name alone
; arguments: Active double 0.7, Const i64 1
; expect: gradient
@table = internal constant [3 x ptr] [ptr @square, ptr @sin, ptr @cube]
declare double @sin(double)
define internal double @square(double %x) {
  %y = fmul double %x, %x
  ret double %y
}
define internal double @cube(double %x) {
  %y = call double @square(double %x)
  %z = fmul double %x, %y
  ret double %z
}
define double @f(double %x, i64 %k) {
  %at = getelementptr [3 x ptr], ptr @table, i64 0, i64 %k
  %g = load ptr, ptr %at
  %y = call double %g(double %x)
  %next = add i64 %k, 1
  %beside = getelementptr [3 x ptr], ptr @table, i64 0, i64 %next
  %h = load ptr, ptr %beside
  %z = call double %h(double %y)
  %r = fmul double %y, %z
  ret double %r
}
