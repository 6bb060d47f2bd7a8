; A loop over constants does no work in the reverse sweep, which passes it over.
; arguments: Active double 0.3, Const double[4], Const i64 4
; expect: gradient

define double @f(double %x, ptr %c, i64 %n) {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %s = phi double [ 0.000000e+00, %entry ], [ %s.next, %loop ]
  %p = getelementptr double, ptr %c, i64 %i
  %v = load double, ptr %p
  %s.next = fadd double %s, %v
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %end

end:
  %r = fmul double %s.next, %x
  ret double %r
}

; ==== plan ====
; f(%x: active, %c: const, %n: const) -> active
;
; activity
;   entry:
;     %smax = tail call i64 @llvm.smax.i64(i64 %n, i64 1)
;     br label %loop
;   loop:
;     %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
;     %s = phi double [ 0.000000e+00, %entry ], [ %s.next, %loop ]   only useful
;     %p = getelementptr double, ptr %c, i64 %i
;     %v = load double, ptr %p, align 8                              only useful
;     %s.next = fadd double %s, %v                                   only useful
;     %i.next = add nuw nsw i64 %i, 1
;     %exitcond.not = icmp eq i64 %i.next, %smax
;     br i1 %exitcond.not, label %end, label %loop
;   end:
;     %s.next.lcssa = phi double [ %s.next, %loop ]   only useful
;     %r = fmul double %x, %s.next.lcssa              active
;     ret double %r
;
; loops
;     %loop   depth 1   nothing to undo   0 bytes per iteration
;
; kept
;     %s.next.lcssa   a value after a branch   8 bytes per call   it depends on which branches were taken
;
; computed again
;     none
;
; calls with rules
;     none
