; eight bytes copied as an integer, from memory that holds doubles elsewhere
; arguments: Duplicated double[3], Duplicated double[3]
; expect: refused FloatBitsInInteger

define double @f(ptr noalias %a, ptr noalias %b) {
  %bits = load i64, ptr %a, align 1
  store i64 %bits, ptr %b, align 1
  %second = getelementptr double, ptr %a, i64 1
  %v = load double, ptr %second
  %r = fmul double %v, %v
  ret double %r
}
