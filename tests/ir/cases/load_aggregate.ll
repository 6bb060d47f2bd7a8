; a struct with padding is loaded as one value; only its double is used
; arguments: Duplicated double[2]
; expect: gradient

define double @f(ptr %p) {
  %s = load { double, i32 }, ptr %p, align 8
  %a = extractvalue { double, i32 } %s, 0
  %r = fmul double %a, %a
  ret double %r
}
