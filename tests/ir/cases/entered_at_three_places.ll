; a cycle that is entered at three places, with another one in it that is entered at two
; arguments: Duplicated double[6], Active double 0.7, Const i64 2
; expect: gradient

define double @f(ptr %p, double %x, i64 %way) {
entry:
  %seen = load double, ptr %p
  switch i64 %way, label %a [ i64 1, label %b
                              i64 2, label %c ]

a:
  %i.a = phi i64 [ 0, %entry ], [ %i.next, %d ]
  %u.a = phi double [ %x, %entry ], [ %u.d, %d ]
  %u.sin = call double @llvm.sin.f64(double %u.a)
  br label %b

b:
  %i.b = phi i64 [ 1, %entry ], [ %i.a, %a ], [ %i.b2, %c2 ]
  %u.b = phi double [ %seen, %entry ], [ %u.sin, %a ], [ %u.c2, %c2 ]
  %at.b = getelementptr double, ptr %p, i64 %i.b
  %v.b = load double, ptr %at.b
  %u.b2 = fmul double %u.b, %v.b
  store double %u.b2, ptr %at.b
  br label %c

c:
  %i.c = phi i64 [ 0, %entry ], [ %i.b, %b ]
  %u.c = phi double [ 0.5, %entry ], [ %u.b2, %b ]
  %u.c1 = fadd double %u.c, %x
  %odd = trunc i64 %i.c to i1
  br i1 %odd, label %c2, label %d

c2:
  %i.b2 = add i64 %i.c, 1
  %u.c2 = fmul double %u.c1, %u.c1
  br label %b

d:
  %u.d = phi double [ %u.c1, %c ]
  %at.d = getelementptr double, ptr %p, i64 %i.c
  %v.d = load double, ptr %at.d
  %i.next = add i64 %i.c, 1
  %on = icmp slt i64 %i.next, 4
  br i1 %on, label %a, label %end

end:
  %r = fmul double %u.d, %v.d
  ret double %r
}

declare double @llvm.sin.f64(double)
