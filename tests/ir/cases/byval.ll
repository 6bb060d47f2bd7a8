; a struct passed by value, changed in a function that is not inlined
; arguments: Duplicated double[2], Active double 0.3
; expect: gradient
; function: g

%P = type { double, double }
define internal double @f(ptr byval(%P) align 8 %p, double %x) noinline {
  %v = load double, ptr %p
  %w = fmul double %v, %x
  store double %w, ptr %p
  call void @tick(ptr %p)
  %q = getelementptr inbounds %P, ptr %p, i32 0, i32 1
  %u = load double, ptr %q
  %v2 = load double, ptr %p
  %r = fmul double %u, %v2
  ret double %r
}
define internal void @tick(ptr %p) noinline {
  %v = load double, ptr %p
  %w = fmul double %v, %v
  store double %w, ptr %p
  ret void
}
define double @g(ptr %p, double %x) {
  %r = call double @f(ptr byval(%P) align 8 %p, double %x)
  %s = load double, ptr %p
  %t = fmul double %r, %s
  ret double %t
}
