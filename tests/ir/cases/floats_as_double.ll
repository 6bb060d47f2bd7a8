; two floats travel in a double to a function: only inlined is there a derivative
; arguments: Duplicated float[2]
; expect: gradient

define float @f(ptr %x) {
  %d = load <2 x float>, ptr %x, align 4
  %bits = bitcast <2 x float> %d to double
  %r = call float @g(double %bits)
  ret float %r
}
define float @g(double %d) noinline {
  %v = bitcast double %d to <2 x float>
  %a = extractelement <2 x float> %v, i64 0
  %b = extractelement <2 x float> %v, i64 1
  %r = fmul float %a, %b
  ret float %r
}
