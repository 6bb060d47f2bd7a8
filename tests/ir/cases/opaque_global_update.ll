; integer state: the index table is changed by an opaque call between two uses
; arguments: Duplicated double[4], Const i64 1
; expect: gradient

@index = global i64 0

define internal void @advance() noinline {
  %i = load i64, ptr @index
  %j = add i64 %i, 1
  %k = and i64 %j, 3
  store i64 %k, ptr @index
  ret void
}

define double @f(ptr %a, i64 %start) {
  store i64 %start, ptr @index
  %i = load i64, ptr @index
  %p = getelementptr double, ptr %a, i64 %i
  %v = load double, ptr %p
  call void @advance()
  %j = load i64, ptr @index
  %q = getelementptr double, ptr %a, i64 %j
  %w = load double, ptr %q
  %vw = fmul double %v, %w
  store double %vw, ptr %q
  call void @advance()
  ret double %vw
}
