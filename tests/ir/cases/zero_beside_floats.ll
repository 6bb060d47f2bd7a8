; eight zero bytes stored into memory that holds doubles elsewhere: LLVM's form of a short memset
; arguments: Duplicated double[8]
; expect: gradient

define double @f(ptr %b) {
  %seventh = getelementptr double, ptr %b, i64 6
  store i64 0, ptr %seventh, align 1
  store double 0.000000e+00, ptr %b
  ret double 5.000000e-01
}
