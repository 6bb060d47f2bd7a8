; two doubles copied as a vector
; arguments: Duplicated double[2], Duplicated double[2]
; expect: gradient

define void @f(ptr %o, ptr %p) {
  %s = load <2 x double>, ptr %p, align 8
  store <2 x double> %s, ptr %o, align 8
  ret void
}
