; a function in a precision that no row of the table has
; arguments: Active double 0.5
; expect: refused UnknownCall

define double @f(double %x) {
  %h = fptrunc double %x to half
  %s = call half @llvm.sin.f16(half %h)
  %r = fpext half %s to double
  ret double %r
}
declare half @llvm.sin.f16(half)
