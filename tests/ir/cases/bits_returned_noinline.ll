; two floats passed and returned in one integer: no derivative of the call, so it is inlined
; arguments: Active float 0.5, Active float 0.7
; expect: gradient
define internal i64 @pair(i64 %both) noinline {
  %low = trunc i64 %both to i32
  %x = bitcast i32 %low to float
  %h = lshr i64 %both, 32
  %high = trunc i64 %h to i32
  %y = bitcast i32 %high to float
  %p = fmul float %x, %y
  %q = fadd float %x, %y
  %pi = bitcast float %p to i32
  %qi = bitcast float %q to i32
  %pl = zext i32 %pi to i64
  %ql = zext i32 %qi to i64
  %qh = shl i64 %ql, 32
  %r = or disjoint i64 %qh, %pl
  ret i64 %r
}
define float @f(float %x, float %y) {
  %xi = bitcast float %x to i32
  %yi = bitcast float %y to i32
  %xl = zext i32 %xi to i64
  %yl = zext i32 %yi to i64
  %high = shl i64 %yl, 32
  %both = or disjoint i64 %high, %xl
  %s = call i64 @pair(i64 %both)
  %ai = trunc i64 %s to i32
  %bl = lshr i64 %s, 32
  %bi = trunc i64 %bl to i32
  %a = bitcast i32 %ai to float
  %b = bitcast i32 %bi to float
  %aa = fmul float %a, %a
  %r = fadd float %aa, %b
  ret float %r
}
