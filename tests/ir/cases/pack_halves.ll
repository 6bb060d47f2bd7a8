; two floats put into one integer and stored as one
; arguments: Active float 0.5, Active float 0.7, Duplicated float[4]
; expect: gradient

define float @f(float %x, float %y, ptr %p) {
  %i = bitcast float %x to i32
  %j = bitcast float %y to i32
  %a = zext i32 %i to i64
  %b = zext i32 %j to i64
  %c = shl i64 %b, 32
  %d = or disjoint i64 %a, %c
  store i64 %d, ptr %p
  %q = getelementptr float, ptr %p, i64 1
  %v = load float, ptr %q
  %lo = trunc i64 %d to i32
  %l = bitcast i32 %lo to float
  %r = fmul float %v, %l
  ret float %r
}
