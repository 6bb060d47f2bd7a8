; a variable in a register of the calling convention
; arguments: Active double 0.4
; expect: refused UnsupportedIR
; inlined: gradient

%E = type { i64 }
define internal swiftcc double @g(double %x, ptr swifterror %e) noinline {
  store ptr null, ptr %e
  %r = fmul double %x, %x
  ret double %r
}
define double @f(double %x) {
  %e = alloca swifterror ptr
  store ptr null, ptr %e
  %r = call swiftcc double @g(double %x, ptr swifterror %e)
  %s = fmul double %r, %x
  ret double %s
}
