; what is in memory changes as a sign bit does: a float, for all one knows
; arguments: Duplicated double[2] -0.4 0.7
; expect: refused FloatBitsInInteger

define void @f(ptr %p) {
  %i = load i64, ptr %p
  %j = and i64 %i, 9223372036854775807
  store i64 %j, ptr %p
  ret void
}
