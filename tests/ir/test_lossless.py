"""Code that is only called drops what it holds where it raises, and does the same beside."""

import llvmlite.binding as llvm

from activerules.ir.lifetimes import split_places
from activerules.ir.lossless import without_losses
from activerules.ir.parser import parse_module
from activerules.ir.printer import print_module
from ir.harness import Compiled

# As Numba leaves it: the data of an array are found by where NRT_MemInfo has them, and LAPACK
# works in them.
SOLVES = """
declare ptr @NRT_MemInfo_alloc_aligned(i64, i32)
declare void @NRT_decref(ptr)
declare i32 @numba_xgesv(i8, i64, i64, ptr, i64, ptr, ptr, i64)
declare i32 @numba_fatal_error()
define i32 @f(ptr %retptr, ptr %excinfo, i64 %n, ptr %a) {
entry:
  %made = call ptr @NRT_MemInfo_alloc_aligned(i64 %n, i32 32)
  %place = getelementptr i8, ptr %made, i64 24
  %data = load ptr, ptr %place
  %info = call i32 @numba_xgesv(i8 100, i64 %n, i64 1, ptr %a, i64 %n, ptr %data, ptr %a, i64 %n)
  %ok = icmp eq i32 %info, 0
  br i1 %ok, label %fine, label %failed
fine:
  %first = load double, ptr %data
  store double %first, ptr %retptr
  call void @NRT_decref(ptr %made)
  ret i32 0
failed:
  %wrong = icmp slt i32 %info, 0
  br i1 %wrong, label %fatal, label %raised
fatal:
  %ignored = call i32 @numba_fatal_error()
  br label %raised
raised:
  store ptr null, ptr %excinfo
  ret i32 1
}
"""


def test_what_lapack_worked_in_is_dropped():
    text = without_losses(SOLVES)
    llvm.parse_assembly(text).verify()
    assert text.count("call void @NRT_decref(ptr %made)") == 2
    assert "call ptr @NRT_MemInfo_data_fast(ptr %made)" in text


def test_code_that_holds_nothing_stays_as_it_is():
    text = "define double @g(double %x) {\n  %y = fadd double %x, %x\n  ret double %y\n}\n"
    assert without_losses(text) is text


TURNS = """
declare void @llvm.lifetime.start.p0(ptr)
declare void @llvm.lifetime.end.p0(ptr)
define i64 @turns(i64 %n) {
entry:
  %place = alloca { i64, i64 }
  %second = getelementptr i8, ptr %place, i64 8
  br label %round
round:
  %k = phi i64 [ 0, %entry ], [ %next, %round ]
  call void @llvm.lifetime.start.p0(ptr %place)
  store i64 %k, ptr %second
  %one = load i64, ptr %second
  call void @llvm.lifetime.end.p0(ptr %place)
  LATER
  store i64 1, ptr %place
  %step = load i64, ptr %place
  %next = add i64 %one, %step
  %more = icmp slt i64 %next, %n
  br i1 %more, label %round, label %end
end:
  ret i64 %next
}
"""


def places_of(later):
    """How many places there are; whatever they are, the function counts to the same number."""
    # a name as it was made when this code was called, and inlined, in other such code
    text = TURNS.replace("LATER", later).replace("%one", "%own.life0")
    module = parse_module(text)
    split_places(module.functions["turns"])
    text = print_module(module)
    assert Compiled(text).function("turns")(5) == 5
    return text.count("alloca")


def test_a_place_for_each_variable():
    assert places_of("call void @llvm.lifetime.start.p0(ptr %place)") == 2


def test_one_variable_keeps_one_place():
    assert places_of("") == 1


# LLVM leaves such cycles in code that it optimised.
JUMPS = """
declare void @llvm.lifetime.start.p0(ptr)
define i64 @jumps(i64 %n) {
entry:
  %place = alloca i64
  %odd = trunc i64 %n to i1
  br i1 %odd, label %first, label %second
first:
  %x = phi i64 [ 0, %entry ], [ %y2, %second ]
  call void @llvm.lifetime.start.p0(ptr %place)
  store i64 %x, ptr %place
  %x1 = load i64, ptr %place
  %x2 = add i64 %x1, 1
  br label %second
second:
  %y = phi i64 [ 0, %entry ], [ %x2, %first ]
  call void @llvm.lifetime.start.p0(ptr %place)
  store i64 %y, ptr %place
  %y1 = load i64, ptr %place
  %y2 = add i64 %y1, 1
  %more = icmp slt i64 %y2, %n
  br i1 %more, label %first, label %end
end:
  ret i64 %y2
}
"""


def test_a_cycle_may_be_entered_at_two_places():
    module = parse_module(JUMPS)
    split_places(module.functions["jumps"])
    text = print_module(module)
    assert text.count("alloca") == 2
    jumps = Compiled(text).function("jumps")
    assert (jumps(5), jumps(4)) == (6, 5)
