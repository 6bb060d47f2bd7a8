; a function that is not inlined, called in a loop, with a loop over the caller's array in it
; arguments: Duplicated double[4], Active double 0.5, Const i64 3
; expect: gradient

; Function Attrs: noinline
define internal double @sum(ptr %a, double %x) #0 {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %s = phi double [ 0.0, %entry ], [ %s.next, %loop ]
  %p = getelementptr double, ptr %a, i64 %i
  %v = load double, ptr %p, align 8
  %w = fmul double %v, %v
  %z = fmul double %w, %x
  %s.next = fadd double %s, %z
  %i.next = add i64 %i, 1
  %c = icmp slt i64 %i.next, 4
  br i1 %c, label %loop, label %done

done:
  ret double %s.next
}

define double @f(ptr %a, double %x, i64 %n) {
entry:
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %y = phi double [ %x, %entry ], [ %r, %loop ]
  %r = call double @sum(ptr %a, double %y)
  %p = getelementptr double, ptr %a, i64 %k
  store double %r, ptr %p, align 8
  %k.next = add i64 %k, 1
  %c = icmp slt i64 %k.next, %n
  br i1 %c, label %loop, label %done

done:
  ret double %r
}

attributes #0 = { noinline }
