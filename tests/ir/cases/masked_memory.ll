; some lanes of vectors are loaded and stored, some gathered and scattered, and all of them; written as LLVM 20
; prints it, which later releases read, too
; arguments: Duplicated double[4] 0.7 -0.2 1.4 -1.1, Duplicated double[4], Duplicated double[8], Const i64[4] 6 1 1 3
; expect: gradient

define void @f(ptr %x, ptr %y, ptr %z, ptr %at) {
  %v = load <4 x double>, ptr %x, align 8
  %positive = fcmp ogt <4 x double> %v, zeroinitializer
  %w = call <4 x double> @llvm.masked.load.v4f64.p0(ptr %y, i32 8, <4 x i1> %positive, <4 x double> %v)
  %vw = fmul <4 x double> %v, %w
  call void @llvm.masked.store.v4f64.p0(<4 x double> %vw, ptr %y, i32 8, <4 x i1> %positive)
  %k = load <4 x i64>, ptr %at, align 8
  %places = getelementptr double, ptr %z, <4 x i64> %k
  %g = call <4 x double> @llvm.masked.gather.v4f64.v4p0(<4 x ptr> %places, i32 8, <4 x i1> splat (i1 true), <4 x double> poison)
  %gw = fmul <4 x double> %g, %w
  call void @llvm.masked.scatter.v4f64.v4p0(<4 x double> %gw, <4 x ptr> %places, i32 8, <4 x i1> %positive)
  ret void
}
declare <4 x double> @llvm.masked.load.v4f64.p0(ptr, i32, <4 x i1>, <4 x double>)
declare void @llvm.masked.store.v4f64.p0(<4 x double>, ptr, i32, <4 x i1>)
declare <4 x double> @llvm.masked.gather.v4f64.v4p0(<4 x ptr>, i32, <4 x i1>, <4 x double>)
declare void @llvm.masked.scatter.v4f64.v4p0(<4 x double>, <4 x ptr>, i32, <4 x i1>)
