; float and double mixed
; arguments: Active double 0.5, Active double 0.75
; expect: gradient

define float @f(float %x, float %y) {
  %v = call float @llvm.fma.f32(float %x, float %y, float %x)
  %d = fpext float %v to double
  %e = fmul double %d, %d
  %g = fptrunc double %e to float
  ret float %g
}

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare float @llvm.fma.f32(float, float, float) #0

attributes #0 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
