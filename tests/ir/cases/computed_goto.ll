; a jump to an address out of a table, as interpreters have it
; arguments: Duplicated double[4], Const i64 1
; expect: refused UnsupportedIR

@table = private constant [2 x ptr] [ptr blockaddress(@f, %a), ptr blockaddress(@f, %b)]
define double @f(ptr %x, i64 %n) {
entry:
  br label %next
next:
  %s = phi double [ 1.0, %entry ], [ %sa, %a ]
  %k = phi i64 [ %n, %entry ], [ 1, %a ]
  %at = getelementptr ptr, ptr @table, i64 %k
  %to = load ptr, ptr %at
  indirectbr ptr %to, [ label %a, label %b ]
a:
  %v = load double, ptr %x
  %sa = fmul double %s, %v
  br label %next
b:
  ret double %s
}
