; a function of another calling convention returns integers in a struct
; arguments: Duplicated double[8], Const i64 513, Const i64 1
; expect: gradient
define fastcc { i64, i64 } @g(i8 zeroext %n) noinline {
  %r = zext i8 %n to i64
  fence seq_cst
  %s = insertvalue { i64, i64 } poison, i64 %r, 0
  %u = insertvalue { i64, i64 } %s, i64 2, 1
  ret { i64, i64 } %u
}
define double @f(ptr %a, i64 %n, i64 %k) {
  %b = trunc i64 %n to i8
  %i = call fastcc { i64, i64 } @g(i8 zeroext %b)
  %k0 = extractvalue { i64, i64 } %i, 0
  %k1 = extractvalue { i64, i64 } %i, 1
  %k2 = add i64 %k0, %k1
  %q = getelementptr double, ptr %a, i64 %k2
  %v = load double, ptr %q
  %r = fmul double %v, %v
  ret double %r
}
