; an array carried through joins as one value
; arguments: Duplicated double[2], Const i64 5
; expect: gradient

define double @f(ptr %p, i64 %n) {
entry:
  %s0 = load [2 x double], ptr %p, align 8
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %latch ]
  %s = phi [2 x double] [ %s0, %entry ], [ %s2, %latch ]
  %o = and i64 %k, 1
  %c0 = icmp eq i64 %o, 0
  br i1 %c0, label %even, label %odd

even:
  %a = extractvalue [2 x double] %s, 0
  %aa = fmul double %a, 1.500000e+00
  %se = insertvalue [2 x double] %s, double %aa, 1
  br label %latch

odd:
  %b = extractvalue [2 x double] %s, 1
  %bb = fmul double %b, %b
  %so = insertvalue [2 x double] %s, double %bb, 0
  br label %latch

latch:
  %s2 = phi [2 x double] [ %se, %even ], [ %so, %odd ]
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, %n
  br i1 %c, label %loop, label %end

end:
  %r0 = extractvalue [2 x double] %s2, 0
  %r1 = extractvalue [2 x double] %s2, 1
  %r = fmul double %r0, %r1
  ret double %r
}
