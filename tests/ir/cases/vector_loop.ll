; vector arithmetic, intrinsics, shuffles and a reduction, carried through a loop
; arguments: Duplicated double[8], Const i64 2
; expect: gradient

declare <2 x double> @llvm.fma.v2f64(<2 x double>, <2 x double>, <2 x double>)
declare <2 x double> @llvm.sin.v2f64(<2 x double>)
declare double @llvm.vector.reduce.fadd.v2f64(double, <2 x double>)

define double @f(ptr %p, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %s = phi <2 x double> [ <double 1.000000e+00, double 5.000000e-01>, %entry ], [ %s1, %loop ]
  %o = mul i64 %k, 2
  %q = getelementptr double, ptr %p, i64 %o
  %v = load <2 x double>, ptr %q, align 8
  %w = shufflevector <2 x double> %v, <2 x double> poison, <2 x i32> <i32 1, i32 0>
  %g = fcmp ogt <2 x double> %v, %w
  %m = select <2 x i1> %g, <2 x double> %v, <2 x double> splat (double 5.000000e-01)
  %sin = call <2 x double> @llvm.sin.v2f64(<2 x double> %m)
  %s1 = call <2 x double> @llvm.fma.v2f64(<2 x double> %sin, <2 x double> %w, <2 x double> %s)
  store <2 x double> %s1, ptr %q, align 8
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %end

end:
  %i = urem i64 %n, 2
  %e = extractelement <2 x double> %s1, i64 %i
  %r = call double @llvm.vector.reduce.fadd.v2f64(double %e, <2 x double> %s1)
  ret double %r
}
