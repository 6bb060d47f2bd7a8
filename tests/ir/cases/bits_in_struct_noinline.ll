; a function whose address is taken returns the bits of a float in a struct
; arguments: Active double 0.7
; expect: gradient
@table = global [1 x ptr] [ptr @g]
define { i64, i64 } @g(double %x) noinline {
  %y = fmul double %x, %x
  %a = bitcast double %y to i64
  %s = insertvalue { i64, i64 } poison, i64 %a, 0
  %t = insertvalue { i64, i64 } %s, i64 3, 1
  ret { i64, i64 } %t
}
define double @f(double %x) {
  %s = call { i64, i64 } @g(double %x)
  %a = extractvalue { i64, i64 } %s, 0
  %y = bitcast i64 %a to double
  %r = fmul double %y, %y
  ret double %r
}
