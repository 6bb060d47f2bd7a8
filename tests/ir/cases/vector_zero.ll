; two doubles cleared by a vector store
; arguments: Duplicated double[2]
; expect: gradient

define double @f(ptr %p) {
  %a = load double, ptr %p, align 8
  %r = fmul double %a, %a
  store <2 x double> zeroinitializer, ptr %p, align 8
  ret double %r
}
