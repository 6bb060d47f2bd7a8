; an argument may be the memory of a global
; arguments: Duplicated double[2], Active double 0.5
; expect: gradient

@g = global [2 x double] zeroinitializer

define double @f(ptr %p, double %x) {
  store double 2.000000e+00, ptr @g, align 8
  store double %x, ptr %p, align 8
  %v = load double, ptr @g, align 8
  %r = fmul double %v, %x
  ret double %r
}
