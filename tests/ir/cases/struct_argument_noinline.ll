; a struct passed by value to a function that returns a number, beside a call with two results
; arguments: Active double 0.7, Const i64 3
; expect: gradient

define double @f(double %x, i64 %n) {
  %square = fmul double %x, %x
  %half = insertvalue { double, double } poison, double %x, 0
  %pair = insertvalue { double, double } %half, double %square, 1
  %both = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %n, i64 1)
  %count = extractvalue { i64, i1 } %both, 0
  %wraps = extractvalue { i64, i1 } %both, 1
  %product = call double @scaled({ double, double } %pair, i64 %count)
  %r = select i1 %wraps, double %x, double %product
  ret double %r
}
define double @scaled({ double, double } %pair, i64 %count) noinline {
  %a = extractvalue { double, double } %pair, 0
  %b = extractvalue { double, double } %pair, 1
  %ab = fmul double %a, %b
  %number = sitofp i64 %count to double
  %r = fmul double %ab, %number
  ret double %r
}
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
