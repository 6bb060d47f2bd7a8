; s += a[i]*a[i]: a is only read, so its elements are loaded again and the tape stays empty.
; arguments: Duplicated double[4], Const i64 4
; expect: gradient

define double @f(ptr %a, i64 %n) {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s.next, %loop ]
  %p = getelementptr double, ptr %a, i64 %i
  %v = load double, ptr %p
  %square = fmul double %v, %v
  %s.next = fadd double %s, %square
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %end

end:
  ret double %s.next
}

; ==== plan ====
; f(%a: duplicated, %n: const) -> active
;
; activity
;   entry:
;     %smax = tail call i64 @llvm.smax.i64(i64 %n, i64 1)
;     br label %loop
;   loop:
;     %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
;     %s = phi double [ 0.000000e+00, %entry ], [ %s.next, %loop ]   active
;     %p = getelementptr double, ptr %a, i64 %i                      has a shadow
;     %v = load double, ptr %p, align 8                              active
;     %square = fmul double %v, %v                                   active
;     %s.next = fadd double %s, %square                              active
;     %i.next = add nuw nsw i64 %i, 1
;     %exitcond.not = icmp eq i64 %i.next, %smax
;     br i1 %exitcond.not, label %end, label %loop
;   end:
;     %s.next.lcssa = phi double [ %s.next, %loop ]   active
;     ret double %s.next.lcssa
;
; loops
;     %loop   depth 1   length known: from 0 by 1 while != %smax   0 bytes per iteration
;
; kept
;     none
;
; computed again
;     %smax                the result of smax
;     %i                   a value at the start of an iteration
;     %p                   an address
;     shadow of %p         an address in the shadow of %a
;     %v                   a value of %a
;     iterations of loop   how often the loop ran
;
; calls with rules
;     none
