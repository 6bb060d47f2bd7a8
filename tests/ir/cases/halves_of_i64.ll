; two floats read as one integer and taken apart (a small struct passed in a register)
; arguments: Duplicated float[4]
; expect: gradient

define float @f(ptr %p) {
  %a = load i64, ptr %p
  %lo = trunc i64 %a to i32
  %sh = lshr i64 %a, 32
  %hi = trunc i64 %sh to i32
  %x = bitcast i32 %lo to float
  %y = bitcast i32 %hi to float
  %r = fmul float %x, %y
  ret float %r
}
