; a lane set by a number known at run time, the first lane in all, and the largest lane
; arguments: Duplicated double[4], Const i64 2
; expect: gradient

define double @f(ptr %x, i64 %k) {
  %v = load <4 x double>, ptr %x, align 8
  %w = insertelement <4 x double> %v, double 2.5, i64 %k
  %largest = call double @llvm.vector.reduce.fmax.v4f64(<4 x double> %w)
  %first = shufflevector <4 x double> %v, <4 x double> poison, <4 x i32> zeroinitializer
  %products = fmul <4 x double> %first, %w
  %sum = call reassoc double @llvm.vector.reduce.fadd.v4f64(double 0.0, <4 x double> %products)
  %r = fmul double %sum, %largest
  ret double %r
}
declare double @llvm.vector.reduce.fmax.v4f64(<4 x double>)
declare double @llvm.vector.reduce.fadd.v4f64(double, <4 x double>)
