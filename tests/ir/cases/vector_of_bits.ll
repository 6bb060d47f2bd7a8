; what vectorisers make: whether any lane is smaller, as an integer; halves of integers put together;
; calls by lanes; and a prefetch
; arguments: Duplicated double[4] 0.3 1.2 0.7 0.9, Duplicated double[4] 0.8 0.4 1.1 0.5, Const i64 5
; expect: gradient

define double @f(ptr %x, ptr %y, i64 %n) {
  call void @llvm.prefetch.p0(ptr %x, i32 0, i32 3, i32 1)
  %a = load <4 x double>, ptr %x, align 8
  %b = load <4 x double>, ptr %y, align 8
  %less = fcmp olt <4 x double> %a, %b
  %mask = bitcast <4 x i1> %less to i4
  %any = icmp ne i4 %mask, 0
  %m = call <4 x double> @llvm.minimumnum.v4f64(<4 x double> %a, <4 x double> %b)
  %q = call <4 x i64> @llvm.lround.v4i64.v4f64(<4 x double> %a)
  %qd = sitofp <4 x i64> %q to <4 x double>
  %mq = fadd <4 x double> %m, %qd
  %p = fmul <4 x double> %mq, %a
  %pair = bitcast i64 %n to <2 x i32>
  %lows = extractelement <2 x i32> %pair, i64 0
  %w = sitofp i32 %lows to double
  %s = call reassoc double @llvm.vector.reduce.fadd.v4f64(double 0.0, <4 x double> %p)
  %sw = fmul double %s, %w
  %r = select i1 %any, double %sw, double %s
  ret double %r
}
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <4 x double> @llvm.minimumnum.v4f64(<4 x double>, <4 x double>)
declare <4 x i64> @llvm.lround.v4i64.v4f64(<4 x double>)
declare double @llvm.vector.reduce.fadd.v4f64(double, <4 x double>)
