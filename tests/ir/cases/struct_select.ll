; structs with padding chosen as one value
; arguments: Duplicated double[6], Const i64 4
; expect: gradient

define double @f(ptr %p, i64 %n) {
  %s = load { double, i32, double }, ptr %p, align 8
  %p2 = getelementptr i8, ptr %p, i64 24
  %t = load { double, i32, double }, ptr %p2, align 8
  %c = icmp sgt i64 %n, 3
  %q = select i1 %c, { double, i32, double } %s, { double, i32, double } %t
  %f = freeze { double, i32, double } %q
  %a = extractvalue { double, i32, double } %f, 0
  %b = extractvalue { double, i32, double } %f, 2
  %r = fmul double %a, %b
  ret double %r
}
