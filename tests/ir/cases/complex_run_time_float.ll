; the same in single precision, by small and by large numbers
; arguments: Active float 0.4, Active float 0.8
; expect: gradient
target triple = "x86_64-unknown-linux-gnu"
declare <2 x float> @__mulsc3(float, float, float, float)
declare <2 x float> @__divsc3(float, float, float, float)
define float @f(float %a, float %b) {
  %w = call <2 x float> @__mulsc3(float %a, float %b, float %a, float %b)
  %re = extractelement <2 x float> %w, i64 0
  %im = extractelement <2 x float> %w, i64 1
  %far = fmul float %a, 0x4600000000000000
  %q = call <2 x float> @__divsc3(float %re, float %im, float %far, float 0x4600000000000000)
  %x = extractelement <2 x float> %q, i64 0
  %near = fmul float %x, 0x4600000000000000
  ret float %near
}
