; floats copied through a local integer
; arguments: Duplicated float[4], Active float 0.5, Const i64 3
; expect: refused FloatBitsInInteger
define float @f(ptr noalias %a, float %x, i64 %n) {
entry:
  %t = alloca i32
  %m = alloca [8 x float]
  %i = load i32, ptr %a
  store volatile i32 %i, ptr %t
  %i2 = load volatile i32, ptr %t
  store volatile i32 %i2, ptr %m
  %v = load volatile float, ptr %m
  %r = fmul float %v, %x
  ret float %r
}
