; a linked list is built, summed and freed by functions that call themselves
; arguments: Active double 0.5, Const i64 4
; expect: gradient

declare ptr @malloc(i64)
declare void @free(ptr)

; Function Attrs: noinline
define internal ptr @build(double %x, i64 %n) #0 {
entry:
  %end = icmp eq i64 %n, 0
  br i1 %end, label %none, label %some

none:
  ret ptr null

some:
  %node = call ptr @malloc(i64 16)
  %y = fmul double %x, %x
  store double %y, ptr %node, align 8
  %m = sub i64 %n, 1
  %x1 = fadd double %x, 1.000000e-01
  %next = call ptr @build(double %x1, i64 %m)
  %at = getelementptr i8, ptr %node, i64 8
  store ptr %next, ptr %at, align 8
  ret ptr %node
}

; Function Attrs: noinline
define internal double @product(ptr %node) #0 {
entry:
  %end = icmp eq ptr %node, null
  br i1 %end, label %none, label %some

none:
  ret double 1.0

some:
  %v = load double, ptr %node, align 8
  %at = getelementptr i8, ptr %node, i64 8
  %next = load ptr, ptr %at, align 8
  %p = call double @product(ptr %next)
  %r = fmul double %p, %v
  %s = fadd double %r, %v
  ret double %s
}

; Function Attrs: noinline
define internal void @drop(ptr %node) #0 {
entry:
  %end = icmp eq ptr %node, null
  br i1 %end, label %none, label %some

none:
  ret void

some:
  %at = getelementptr i8, ptr %node, i64 8
  %next = load ptr, ptr %at, align 8
  call void @drop(ptr %next)
  call void @free(ptr %node)
  ret void
}

define double @f(double %x, i64 %n) {
  %list = call ptr @build(double %x, i64 %n)
  %p = call double @product(ptr %list)
  call void @drop(ptr %list)
  ret double %p
}

attributes #0 = { noinline }
