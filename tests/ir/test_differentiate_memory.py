"""What a gradient allocates it frees: scratch arrays, their shadows and the tape, on every path."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import llvmlite.binding as llvm
import numpy as np
import pytest

from activerules.ir.foreign.differentiate import differentiate
from tests.ir.forward_harness import check_forward
from tests.ir.harness import Active, Const, Duplicated, check_gradient, compile_text

SCRATCH = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
define double @f(ptr %a, i64 %rounds, double %x) {
entry:
  br label %outer
outer:
  %r = phi i64 [ 0, %entry ], [ %r.next, %outer.end ]
  %total = phi double [ 0.0, %entry ], [ %total.next, %outer.end ]
  %scratch = call ptr @malloc(i64 32)
  br label %fill
fill:
  %i = phi i64 [ 0, %outer ], [ %i.next, %fill ]
  %p = getelementptr double, ptr %a, i64 %i
  %v = load double, ptr %p
  %vx = fmul double %v, %x
  %q = getelementptr double, ptr %scratch, i64 %i
  store double %vx, ptr %q
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 4
  br i1 %more, label %fill, label %filled
filled:
  %first = load double, ptr %scratch
  %stop = fcmp ogt double %first, 3.0
  br i1 %stop, label %early, label %sum
early:
  call void @free(ptr %scratch)
  ret double %first
sum:
  %j = phi i64 [ 0, %filled ], [ %j.next, %sum ]
  %s = phi double [ %total, %filled ], [ %s.next, %sum ]
  %u = getelementptr double, ptr %scratch, i64 %j
  %w = load double, ptr %u
  %square = fmul double %w, %w
  store double %square, ptr %u
  %s.next = fadd double %s, %square
  %j.next = add i64 %j, 1
  %again = icmp ult i64 %j.next, 4
  br i1 %again, label %sum, label %outer.end
outer.end:
  %back = load double, ptr %scratch
  store double %back, ptr %a
  call void @free(ptr %scratch)
  %total.next = fadd double %s.next, %back
  %r.next = add i64 %r, 1
  %on = icmp slt i64 %r.next, %rounds
  br i1 %on, label %outer, label %end
end:
  ret double %total.next
}
"""


@pytest.fixture
def counts() -> Iterator[list[int]]:
    """[allocations, frees] of code compiled with `counted_malloc` and `counted_free`."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    seen = [0, 0]

    def allocate(size: int) -> int:
        seen[0] += 1
        return libc.malloc(size)

    def release(pointer: int | None) -> None:
        seen[1] += pointer is not None
        libc.free(pointer)

    kept = (
        ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(allocate),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release),
    )
    for name, function in zip(("counted_malloc", "counted_free"), kept, strict=True):
        llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    yield seen
    assert kept


@pytest.mark.parametrize("start", [0.5, 9.0], ids=["to the end", "early exit"])
def test_scratch_arrays_in_a_loop(start: float) -> None:
    check_gradient(
        SCRATCH, "f", [Duplicated, Const, Active], [np.array([start, 0.3, -0.4, 0.2]), 3, 0.8]
    )


@pytest.mark.parametrize("start", [0.5, 9.0], ids=["to the end", "early exit"])
def test_everything_is_freed(start: float, counts: list[int]) -> None:
    text = differentiate(SCRATCH, "f", [Duplicated, Const, Active], name="derivative")
    text = text.replace("@malloc", "@counted_malloc").replace("@free", "@counted_free")
    compiled = compile_text(text)
    a, shadow = np.array([start, 0.3, -0.4, 0.2]), np.ones(4)
    compiled.function("derivative.gradient")(a.ctypes.data, shadow.ctypes.data, 300, 0.8, 1.0)
    assert counts[0] > 0
    assert counts[0] == counts[1]


RUST = """
declare noundef ptr @__rust_alloc(i64, i64 allocalign) allockind("alloc,uninitialized,aligned") \
allocsize(0)
declare ptr @_RNvCs5Q_7___rustc14___rust_realloc(ptr allocptr, i64, i64 allocalign, i64)
declare void @_RNvCs5Q_7___rustc14___rust_dealloc(ptr allocptr, i64, i64)
declare void @_RNvCs5Q_7___rustc35___rust_no_alloc_shim_is_unstable_v2()
define double @f(double %x) {
entry:
  call void @_RNvCs5Q_7___rustc35___rust_no_alloc_shim_is_unstable_v2()
  %a = call ptr @__rust_alloc(i64 16, i64 8)
  store double %x, ptr %a
  %a1 = getelementptr double, ptr %a, i64 1
  store double 2.0, ptr %a1
  %b = call ptr @_RNvCs5Q_7___rustc14___rust_realloc(ptr %a, i64 16, i64 8, i64 32)
  %b2 = getelementptr double, ptr %b, i64 2
  %u = load double, ptr %b
  %b1 = getelementptr double, ptr %b, i64 1
  %v = load double, ptr %b1
  %uv = fmul double %u, %v
  store double %uv, ptr %b2
  %w = load double, ptr %b2
  %r = fmul double %w, %x
  call void @_RNvCs5Q_7___rustc14___rust_dealloc(ptr %b, i64 32, i64 8)
  ret double %r
}
"""


def test_rust_allocates_by_malloc() -> None:
    """In the derivative; the primal, which is not run here, keeps its own allocator."""
    compiled = differentiate(RUST, "f", [Active])
    primal = compiled.index("define double @f(")
    rest = compiled[:primal] + compiled[compiled.index("\n}", primal) + 2 :]
    assert "rust" not in "".join(line for line in rest.splitlines() if "declare" not in line)
    call = compile_text(rest).function("f.gradient")
    call.restype = ctypes.c_double  # a struct of one double is returned as that
    assert call(0.7, 1.0) == pytest.approx(4 * 0.7)


CUT = """
%S = type { double, float, i32 }
define double @f(ptr %x, ptr %y, i64 %n) {
entry:
  CALL
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %l ]
  %sum = phi double [ 0.0, %entry ], [ %sum1, %l ]
  %p = getelementptr %S, ptr %y, i64 %k
  %d = load double, ptr %p
  %pf = getelementptr %S, ptr %p, i64 0, i32 1
  %f = load float, ptr %pf
  %pi = getelementptr %S, ptr %p, i64 0, i32 2
  %i = load i32, ptr %pi
  %w = sitofp i32 %i to double
  %fd = fpext float %f to double
  %a = fmul double %d, %w
  %b = fadd double %a, %fd
  %sum1 = fadd double %sum, %b
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, 2
  br i1 %c, label %l, label %e
e:
  ret double %sum1
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


@pytest.mark.parametrize("copies", [True, False])
def test_where_a_copy_ends_inside_of_a_float_is_nan(copies: bool) -> None:
    """In both modes; derivatives by all other floats are right."""
    call = "call void @llvm.memset.p0.i64(ptr %y, i8 0, i64 %n, i1 false)"
    if copies:
        call = "call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 %n, i1 false)"
    text = CUT.replace("CALL", call)
    reverse = compile_text(differentiate(text, "f", [Duplicated, Duplicated, Const]))
    forward = compile_text(differentiate(text, "f", [Duplicated, Duplicated, Const], "forward"))
    fields = [(k, n) for k in range(2) for n in "df"]
    for bytes_ in (0, 3, 8, 9, 12, 16, 23, 27, 28, 32):
        x, x_bar, y, y_bar = np.ones((4, 2), [("d", "f8"), ("f", "f4"), ("i", "i4")])
        at = [one.ctypes.data for one in (x, x_bar, y, y_bar)]
        starts = [16 * k + x.dtype.fields[n][1] for k, n in fields]
        ends = [s + x.dtype[n].itemsize for s, (_, n) in zip(starts, fields, strict=True)]
        cut = [s < bytes_ < e for s, e in zip(starts, ends, strict=True)]
        moved = [e <= bytes_ for e in ends]
        result = forward.function("f.forward")(*at, bytes_)
        assert [np.isnan(y_bar[n][k]) for k, n in fields] == cut
        assert np.isnan(result) == any(cut)
        x_bar[...] = y_bar[...] = 0
        reverse.function("f.gradient")(*at, bytes_, 1.0)
        got = np.array([[bar[n][k] for k, n in fields] for bar in (x_bar, y_bar)])
        kept = np.where(cut, np.nan, 1.0 - np.array(moved))
        np.testing.assert_array_equal(got[1], kept)
        np.testing.assert_array_equal(got[0], np.where(cut, np.nan, moved) if copies else 0)


ANYWHERE = """
define double @f(ptr %x, ptr %y, i64 %j, i64 %k, i64 %n) {
  %from = getelementptr i8, ptr %x, i64 %j
  %to = getelementptr i8, ptr %y, i64 %k
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  %x0 = load double, ptr %x
  %y0 = load double, ptr %y
  %y1.at = getelementptr double, ptr %y, i64 1
  %y1 = load double, ptr %y1.at
  %a = fadd double %x0, %y0
  %r = fadd double %a, %y1
  ret double %r
}
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""


def test_where_a_copy_begins_inside_of_a_float_is_nan() -> None:
    """In both modes; nothing is written beside the floats of which bytes are copied."""
    kinds = [Duplicated, Duplicated, Const, Const, Const]
    reverse = compile_text(differentiate(ANYWHERE, "f", kinds)).function("f.gradient")
    forward = compile_text(differentiate(ANYWHERE, "f", kinds, "forward")).function("f.forward")
    for j, k, n in ((0, 8, 16), (4, 0, 8), (4, 8, 12), (8, 4, 8), (3, 4, 0), (8, 8, 12), (4, 4, 4)):
        x, x_bar, y, y_bar = np.ones((4, 6))
        at = [one.ctypes.data for one in (x, x_bar, y, y_bar)]
        first, last, inside = k // 8, -(-(k + n) // 8), n > 0 and (j % 8 > 0 or k % 8 > 0)
        cut = [n > 0 and first <= m < last and (inside or 8 * m + 8 > k + n) for m in range(6)]
        result = forward(*at, j, k, n)
        np.testing.assert_array_equal(y_bar, np.where(cut, np.nan, 1.0))
        assert np.isnan(result) == any(cut[:2])
        x_bar[...] = y_bar[...] = 1.0
        reverse(*at, j, k, n, 1.0)
        moved = np.array([m >= first and 8 * m + 8 <= k + n for m in range(6)])
        passed = np.where(moved, 0.0, 1.0 + (np.arange(6) < 2))
        np.testing.assert_array_equal(y_bar, np.where(cut, np.nan, passed))
        of_x = [n > 0 and j // 8 <= m < -(-(j + n) // 8) for m in range(6)]
        expected = 1.0 + (np.arange(6) == 0)
        for m in range(6):
            if inside and of_x[m]:
                expected[m] = np.nan
            elif not inside and of_x[m]:
                target = m + (k - j) // 8
                expected[m] = np.nan if cut[target] else expected[m] + 1.0 + (target < 2)
        np.testing.assert_array_equal(x_bar, expected)


OVERLAPPING = """
define double @g(ptr %a, ptr %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %s = phi double [ 0.0, %entry ], [ %s.next, %loop ]
  %p = getelementptr double, ptr %a, i64 %i
  %q = getelementptr double, ptr %b, i64 %i
  %x = load double, ptr %p
  %y = load double, ptr %q
  %xx = fmul double %x, %x
  %z = fmul double %xx, %y
  store double %z, ptr %q
  %w = load double, ptr %p
  %ws = fmul double %w, %x
  %s.next = fadd double %s, %ws
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %end
end:
  ret double %s.next
}
define double @f(ptr %x, i64 %n, i64 %a.at, i64 %b.at) {
  %a = getelementptr double, ptr %x, i64 %a.at
  %b = getelementptr double, ptr %x, i64 %b.at
  %r = call double @g(ptr %a, ptr %b, i64 %n)
  ret double %r
}
"""


def test_arguments_that_overlap() -> None:
    x = np.array([0.9, 1.2, 0.8, -1.1, 0.7, 1.3])
    kinds, both = [Duplicated, Const, Const, Const], [Duplicated, Duplicated, Const]
    check_gradient(OVERLAPPING, "f", kinds, [x, 3, 0, 1], calls=1)
    check_forward(OVERLAPPING, "f", kinds, [x, 3, 1, 0])
    for mode, name, seed in (("reverse", "gradient", [1.5]), ("forward", "forward", [])):
        text = differentiate(differentiate(OVERLAPPING, "f", kinds, mode), "g", both, mode)
        compiled = compile_text(text)
        known, other = compiled.function(f"f.{name}"), compiled.function(f"g.{name}")
        for a, b in ((0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (0, 3)):
            results = []
            for through_one in (True, False):
                memory = np.array([x, np.linspace(1, 2, 6)])
                start, shadow = memory.ctypes.data, memory[1].ctypes.data
                if through_one:
                    got = known(start, shadow, 3, a, b, *seed)
                else:
                    places = (start + 8 * a, shadow + 8 * a, start + 8 * b, shadow + 8 * b)
                    got = other(*places, 3, *seed)
                results.append([*memory.ravel(), got or 0.0])
            np.testing.assert_allclose(*results, rtol=1e-13)
