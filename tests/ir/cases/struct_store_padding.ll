; a struct with padding is changed and stored as one value
; arguments: Duplicated double[3], Duplicated double[3], Active double 0.5
; expect: refused FloatBitsInInteger

define void @f(ptr %p, ptr %o, double %x) {
  %s = load { double, i32, double }, ptr %p, align 8
  %t = insertvalue { double, i32, double } %s, double %x, 0
  store { double, i32, double } %t, ptr %o, align 8
  ret void
}
