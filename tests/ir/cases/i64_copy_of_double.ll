; doubles, for all one knows, copied as integers
; arguments: Duplicated double[2], Duplicated double[2]
; expect: refused FloatBitsInInteger

define void @f(ptr %o, ptr %p) {
  %s = load i64, ptr %p, align 8
  store i64 %s, ptr %o, align 8
  ret void
}
