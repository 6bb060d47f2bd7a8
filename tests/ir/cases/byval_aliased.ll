; a struct passed by value, and changed behind a pointer meanwhile
; arguments: Duplicated double[4], Active double 0.3
; expect: gradient
; function: g

%P = type { double, double, i64, double }
define internal double @f(ptr byval(%P) align 8 %p, ptr %o, double %x) noinline {
  %v = load double, ptr %o
  %w = fmul double %v, %x
  store double %w, ptr %o
  %q = getelementptr inbounds %P, ptr %p, i32 0, i32 1
  %u = load double, ptr %q
  %v2 = load double, ptr %p
  %r = fmul double %u, %v2
  ret double %r
}
define double @g(ptr %p, double %x) {
  %r = call double @f(ptr byval(%P) align 8 %p, ptr %p, double %x)
  %s = load double, ptr %p
  %t = fmul double %r, %s
  ret double %t
}
