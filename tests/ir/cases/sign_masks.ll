; fabs, copysign and negation on the bits of doubles in memory
; arguments: Duplicated double[4] -0.4 0.7 0.3 -0.2, Duplicated double[2]
; expect: gradient

define double @f(ptr %p, ptr %o) {
  %i = load i64, ptr %p
  %p1 = getelementptr double, ptr %p, i64 1
  %j = load i64, ptr %p1
  %m = and i64 %i, 9223372036854775807
  %s = and i64 %j, -9223372036854775808
  %c = or i64 %m, %s
  %n = or i64 %i, -9223372036854775808
  %x = xor i64 %j, -9223372036854775808
  store i64 %c, ptr %o
  %o1 = getelementptr double, ptr %o, i64 1
  store i64 %x, ptr %o1
  %cd = bitcast i64 %c to double
  %nd = bitcast i64 %n to double
  %xd = bitcast i64 %x to double
  %r = fmul double %cd, %nd
  %r2 = fmul double %r, %xd
  ret double %r2
}
