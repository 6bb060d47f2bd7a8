; an exponent is increased by addition that tells of overflow
; arguments: Active double 0.7
; expect: refused FloatBitsInInteger
declare { i64, i1 } @llvm.uadd.with.overflow.i64(i64, i64)
define double @f(double %x) {
  %b = bitcast double %x to i64
  %s = call { i64, i1 } @llvm.uadd.with.overflow.i64(i64 %b, i64 4503599627370496)
  %u = extractvalue { i64, i1 } %s, 0
  %o = extractvalue { i64, i1 } %s, 1
  %y = bitcast i64 %u to double
  %z = select i1 %o, double 0.0, double %y
  ret double %z
}
