; integer arithmetic on the bits of a float
; arguments: Active double 0.5
; expect: refused FloatBitsInInteger

define float @f(float %x) {
  %b = bitcast float %x to i32
  %h = lshr i32 %b, 1
  %m = sub i32 1597463007, %h
  %y = bitcast i32 %m to float
  ret float %y
}
