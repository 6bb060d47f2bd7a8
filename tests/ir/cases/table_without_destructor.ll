; virtual tables as Rust makes them, none of which has a destructor: that call is never reached
; arguments: Duplicated double[3], Const i64 1
; expect: gradient

@square.table = private constant { ptr, i64, i64, ptr } { ptr null, i64 8, i64 8, ptr @square }
@cube.table = private constant { ptr, i64, i64, ptr } { ptr null, i64 8, i64 8, ptr @cube }
define double @square(ptr %s) noinline {
  %x = load double, ptr %s
  %r = fmul double %x, %x
  ret double %r
}
define double @cube(ptr %s) noinline {
  %x = load double, ptr %s
  %y = fmul double %x, %x
  %r = fmul double %x, %y
  ret double %r
}
define double @f(ptr %x, i64 %n) {
  %odd = trunc i64 %n to i1
  %table = select i1 %odd, ptr @cube.table, ptr @square.table
  %method.at = getelementptr i8, ptr %table, i64 24
  %method = load ptr, ptr %method.at
  %a = call double %method(ptr %x)
  %drop = load ptr, ptr %table
  %none = icmp eq ptr %drop, null
  br i1 %none, label %end, label %dropped
dropped:
  call void %drop(ptr %x)
  br label %end
end:
  %r = fmul double %a, %a
  ret double %r
}
