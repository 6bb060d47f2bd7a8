; pointers laundered and stripped of invariant groups
; arguments: Duplicated double[2]
; expect: gradient

define double @f(ptr %p) {
  %q = call ptr @llvm.launder.invariant.group.p0(ptr %p)
  %s = call ptr @llvm.strip.invariant.group.p0(ptr %q)
  %v = load double, ptr %s
  %w = fmul double %v, %v
  store double %w, ptr %q
  ret double %w
}
declare ptr @llvm.launder.invariant.group.p0(ptr)
declare ptr @llvm.strip.invariant.group.p0(ptr)
