; eight bytes copied as an integer from memory of unknown type to a stack array of doubles
; arguments: Duplicated double[2], Const i64 1
; expect: refused FloatBitsInInteger

define double @f(ptr %b, i64 %n) {
  %local = alloca [4 x double]
  %second = getelementptr double, ptr %local, i64 1
  store double 1.000000e+00, ptr %second
  %bits = load i64, ptr %b, align 1
  %at = getelementptr double, ptr %local, i64 %n
  store i64 %bits, ptr %at
  %r = load double, ptr %second
  ret double %r
}
