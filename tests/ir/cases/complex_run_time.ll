; complex numbers as clang compiles them: products and quotients by its run time
; arguments: Active double 0.4, Active double 0.8
; expect: gradient
target triple = "x86_64-unknown-linux-gnu"
declare { double, double } @__muldc3(double, double, double, double)
declare { double, double } @__divdc3(double, double, double, double)
define double @f(double %a, double %b) {
  %w = call { double, double } @__muldc3(double %a, double %b, double %a, double %b)
  %re = extractvalue { double, double } %w, 0
  %im = extractvalue { double, double } %w, 1
  %shift = fadd double %a, 2.0
  %q = call { double, double } @__divdc3(double %re, double %im, double %shift, double %b)
  %x = extractvalue { double, double } %q, 0
  %y = extractvalue { double, double } %q, 1
  %yy = fmul double %y, %y
  %r = fadd double %x, %yy
  ret double %r
}
