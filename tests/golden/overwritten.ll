; a[i] = a[i]*a[i] in place: what is overwritten is kept, one row of known number per iteration.
; arguments: Duplicated double[4], Const i64 4
; expect: gradient

define void @f(ptr %a, i64 %n) {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %p = getelementptr double, ptr %a, i64 %i
  %v = load double, ptr %p
  %square = fmul double %v, %v
  store double %square, ptr %p
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %end

end:
  ret void
}

; ==== plan ====
; f(%a: duplicated, %n: const) -> const
;
; activity
;   entry:
;     %smax = tail call i64 @llvm.smax.i64(i64 %n, i64 1)
;     br label %loop
;   loop:
;     %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
;     %p = getelementptr double, ptr %a, i64 %i        has a shadow
;     %v = load double, ptr %p, align 8                active
;     %square = fmul double %v, %v                     active
;     store double %square, ptr %p, align 8            active
;     %i.next = add nuw nsw i64 %i, 1
;     %exitcond.not = icmp eq i64 %i.next, %smax
;     br i1 %exitcond.not, label %end, label %loop
;   end:
;     ret void
;
; loops
;     %loop   depth 1   length known: from 0 by 1 while != %smax   8 bytes per iteration
;
; kept
;     %v   a value of %a   8 bytes per iteration of %loop   the memory it was read from is overwritten by: store double %square, ptr %p, align 8
;
; computed again
;     %smax                the result of smax
;     %i                   a value at the start of an iteration
;     shadow of %p         an address in the shadow of %a
;     iterations of loop   how often the loop ran
;
; calls with rules
;     none
