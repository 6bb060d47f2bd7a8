; an atomic counter chooses what is read, and changes again afterwards
; arguments: Duplicated double[4], Active double 0.5
; expect: gradient

define double @f(ptr %p, double %x) {
  %n = alloca i64
  store i64 1, ptr %n
  %old = atomicrmw add ptr %n, i64 2 monotonic, align 8
  %now = load i64, ptr %n
  %q = getelementptr double, ptr %p, i64 %now
  %r = getelementptr double, ptr %p, i64 %old
  %a = load double, ptr %q
  %b = load double, ptr %r
  %ab = fmul double %a, %b
  %y = fmul double %ab, %x
  %end = atomicrmw xchg ptr %n, i64 0 seq_cst
  ret double %y
}
