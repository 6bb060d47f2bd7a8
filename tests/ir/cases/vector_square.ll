; vector arithmetic
; arguments: Duplicated double[2], Duplicated double[2]
; expect: gradient

define void @f(ptr %o, ptr %p) {
  %s = load <2 x double>, ptr %p, align 8
  %a = fmul <2 x double> %s, %s
  store <2 x double> %a, ptr %o, align 8
  ret void
}
