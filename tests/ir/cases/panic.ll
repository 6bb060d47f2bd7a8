; a function that never returns (Rust, Zig), with whatever it calls, is on no way back
; arguments: Duplicated double[3], Const i64 1
; expect: gradient

$report = comdat any
@last = internal global double 0.0
@table = constant [1 x ptr] [ptr @square]
define double @f(ptr %x, i64 %k) {
  %fine = icmp ult i64 %k, 3
  br i1 %fine, label %go, label %stop
stop:
  call void @panic(ptr %x)
  unreachable
go:
  %p = getelementptr double, ptr %x, i64 %k
  %v = load double, ptr %p
  %square = load ptr, ptr @table
  %r = call double %square(double %v)
  ret double %r
}
define private void @panic(ptr %x) #0 {
  %v = load double, ptr %x
  call void @report(double %v)
  call void @llvm.trap()
  unreachable
}
define linkonce_odr void @report(double %v) unnamed_addr noinline comdat {
  store volatile double %v, ptr @last
  ret void
}
define internal double @square(double %x) noinline {
  %y = fmul double %x, %x
  ret double %y
}
declare void @llvm.trap()
attributes #0 = { cold noreturn }
