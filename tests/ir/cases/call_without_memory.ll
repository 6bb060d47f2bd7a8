; a function that is declared to touch no memory gets at no global, and carries nothing out of it
; arguments: Active double 0.5
; expect: gradient

@state = internal global double 0.0

declare i32 @toupper(i32) #0

define double @f(double %x) {
  store double %x, ptr @state
  %n = call i32 @toupper(i32 3)
  %d = sitofp i32 %n to double
  %v = load double, ptr @state
  %y = fmul double %v, %d
  %z = fmul double %y, %v
  ret double %z
}

attributes #0 = { nounwind willreturn memory(none) }
