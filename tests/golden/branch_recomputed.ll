; A branch on an argument: the way taken is decided again from the argument, and nothing is kept.
; arguments: Active double 0.3, Const i64 1
; expect: gradient

declare double @sin(double)

define double @f(double %x, i64 %n) {
entry:
  %positive = icmp sgt i64 %n, 0
  br i1 %positive, label %then, label %end

then:
  %s = call double @sin(double %x)
  br label %end

end:
  %r = phi double [ %x, %entry ], [ %s, %then ]
  ret double %r
}

; ==== plan ====
; f(%x: active, %n: const) -> active
;
; activity
;   entry:
;     %positive = icmp sgt i64 %n, 0
;     br i1 %positive, label %then, label %end
;   then:
;     %s = tail call double @sin(double %x)   active
;     br label %end
;   end:
;     %r = phi double [ %x, %entry ], [ %s, %then ]   active
;     ret double %r
;
; loops
;     none
;
; kept
;     none
;
; computed again
;     %positive            the outcome of a comparison
;     predecessor of end   which branch was taken
;
; calls with rules
;     none
