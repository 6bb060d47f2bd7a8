; clang -O0: optnone noinline on every function
; arguments: Active double 0.3
; expect: gradient

; Function Attrs: noinline nounwind optnone uwtable
define double @f(double %x) #0 {
  %a = alloca double, align 8
  store double %x, ptr %a, align 8
  %v = load double, ptr %a, align 8
  %w = call double @sq(double %v)
  ret double %w
}

; Function Attrs: noinline nounwind optnone uwtable
define internal double @sq(double %x) #0 {
  %a = alloca double, align 8
  store double %x, ptr %a, align 8
  %v = load double, ptr %a, align 8
  %w = fmul double %v, %v
  ret double %w
}

attributes #0 = { noinline nounwind optnone uwtable }
