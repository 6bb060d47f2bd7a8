; the bits of a float in memory go through integer arithmetic
; arguments: Duplicated float[2]
; expect: refused FloatBitsInInteger

define float @f(ptr %p) {
  %i = load i32, ptr %p
  %s = ashr i32 %i, 1
  %j = sub i32 1597463007, %s
  %y = bitcast i32 %j to float
  %y2 = fmul float %y, %y
  ret float %y2
}
