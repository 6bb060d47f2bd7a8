; the linker may take another definition of a weak function
; arguments: Active double 0.7, Const i64 2
; expect: refused UnknownCall
define weak double @g(double %x, i64 %n) {
  %r = fmul double %x, %x
  ret double %r
}
define double @f(double %x, i64 %n) {
  %r = call double @g(double %x, i64 %n)
  ret double %r
}
