; A loop that ends when the data says so: its count is kept, and what it carries is kept by the row.
; arguments: Active double 2.0
; expect: gradient

define double @f(double %x) {
entry:
  br label %loop

loop:
  %z = phi double [ %x, %entry ], [ %z.next, %loop ]
  %quotient = fdiv double %x, %z
  %sum = fadd double %z, %quotient
  %z.next = fmul double %sum, 5.000000e-01
  %square = fmul double %z.next, %z.next
  %error = fsub double %square, %x
  %large = fcmp ogt double %error, 1.000000e-13
  br i1 %large, label %loop, label %end

end:
  ret double %z.next
}

; ==== plan ====
; f(%x: active) -> active
;
; activity
;   entry:
;     br label %loop
;   loop:
;     %z = phi double [ %x, %entry ], [ %z.next, %loop ]   active
;     %quotient = fdiv double %x, %z                       active
;     %sum = fadd double %z, %quotient                     active
;     %z.next = fmul double %sum, 5.000000e-01             active
;     %square = fmul double %z.next, %z.next               only varied
;     %error = fsub double %square, %x                     only varied
;     %large = fcmp ogt double %error, 1.000000e-13
;     br i1 %large, label %loop, label %end
;   end:
;     %z.next.lcssa = phi double [ %z.next, %loop ]   active
;     ret double %z.next.lcssa
;
; loops
;     %loop   depth 1   length unknown until it ends   16 bytes per iteration
;
; kept
;     %z                   a value at the start of an iteration   8 bytes per iteration of %loop   it is carried from one iteration to the next
;     iterations of loop   how often the loop ran                 8 bytes per call                 it is not known when the loop begins
;
; computed again
;     %quotient   a quotient
;
; calls with rules
;     none
