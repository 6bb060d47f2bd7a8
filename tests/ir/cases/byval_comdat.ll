; a function of which linkers keep one copy takes a struct by value
; arguments: Duplicated double[2]
; expect: gradient

%P = type { double, double }
$product = comdat any
define linkonce_odr double @product(ptr byval(%P) align 8 %p) comdat {
  %y.at = getelementptr %P, ptr %p, i32 0, i32 1
  %x = load double, ptr %p
  %y = load double, ptr %y.at
  store double 0.0, ptr %p
  %r = fmul double %x, %y
  ret double %r
}
define double @f(ptr %p) {
  %a = call double @product(ptr byval(%P) align 8 %p)
  %x = load double, ptr %p
  %r = fmul double %a, %x
  ret double %r
}
