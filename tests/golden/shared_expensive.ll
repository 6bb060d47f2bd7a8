; exp is not computed twice: its result is the derivative.
; arguments: Active double 0.3
; expect: gradient

declare double @exp(double)

define double @f(double %x) {
entry:
  %e = call double @exp(double %x)
  %r = fmul double %e, %x
  ret double %r
}

; ==== plan ====
; f(%x: active) -> active
;
; activity
;   entry:
;     %e = tail call double @exp(double %x)   active
;     %r = fmul double %x, %e                 active
;     ret double %r
;
; loops
;     none
;
; kept
;     %e   the result of exp   8 bytes per call   exp is expensive to compute again
;
; computed again
;     none
;
; calls with rules
;     none
