; a function of its own called puts writes its memory
; arguments: Duplicated double[3]
; expect: gradient
define internal i32 @puts(ptr %x) noinline {
  %v = load double, ptr %x
  %w = fmul double %v, %v
  store double %w, ptr %x
  ret i32 0
}
define double @f(ptr %x) {
  %h = call i32 @puts(ptr %x)
  %v = load double, ptr %x
  %r = fmul double %v, %v
  ret double %r
}
