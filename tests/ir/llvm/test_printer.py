"""The laws of parser and printer, on the IR of the corpus and on hand-written IR."""

from __future__ import annotations

import llvmlite.binding as ll
import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_function, print_instruction, print_module
from activerules.ir.text.normalise import target_machine
from corpus import HELPER_IS_MARKED, captured, normalised
from corpus_functions import CORPUS
from tests.ir.llvm.structure import structure

# ruff: noqa: E501 (a line of LLVM IR cannot be broken)

# one of everything LLVM prints that Numba's IR rarely or never holds
RARE = r"""; ModuleID = 'rare'
source_filename = "a ; b"
target triple = "x86_64-unknown-linux-gnu"
module asm ".globl foo"

$any = comdat any
%struct.S = type { i32, [4 x double], ptr }
%"my type" = type <{ i8, i64 }>
%empty = type {}
%later = type opaque

@g = internal constant [4 x i8] c"a;\22\00", comdat($any), align 1
@"q x" = external global %struct.S ; comment
@table = global [2 x ptr] [ptr @f, ptr @g]
@other = alias double, ptr @table

declare i32 @printf(ptr noundef, ...) #0
declare range(i32 0, 5) i32 @rng(i32 range(i32 0, 7))
declare i32 @__gxx_personality_v0(...)
declare void @llvm.assume(i1 noundef)
declare { double, double } @llvm.sincos.f64(double)
declare double @llvm.experimental.constrained.fadd.f64(double, double, metadata, metadata)
declare cc 10 i32 @"fun;c"(i32)

define i32 @0(i32 %0, ptr %1) {
  %3 = add nuw nsw i32 %0, 1
  %4 = icmp samesign ult i32 %3, 7
  br i1 %4, label %5, label %7

5:                                                ; preds = %2
  %6 = call i32 (ptr, ...) @printf(ptr @g, i32 %3)
  br label %7

7:                                                ; preds = %5, %2
  %8 = phi i32 [ 0, %2 ], [ %6, %5 ]
  ret i32 %8
}

define internal fastcc noundef nonnull align 8 dereferenceable(8) ptr @f(ptr noalias byref(%struct.S) align 8 %"a b", i32 %n) unnamed_addr #1 comdat($any) align 16 personality ptr @__gxx_personality_v0 {
entry:
  %a = alloca %struct.S, align 8
  %b = alloca i32, i32 %n, align 4, addrspace(0)
  %p = getelementptr inbounds nuw %struct.S, ptr %"a b", i64 0, i32 1, i64 2
  %v = load atomic volatile double, ptr %p syncscope("agent") acquire, align 8
  store volatile double 0x7FF8000000000000, ptr %p, align 8
  store atomic double 1.000000e+00, ptr %p seq_cst, align 8
  fence syncscope("singlethread") seq_cst
  %rmw = atomicrmw volatile fadd ptr %p, double 1.000000e+00 seq_cst, align 8
  %rmw.used = fadd reassoc nsz double %rmw, %v
  %cx = cmpxchg weak ptr %b, i32 %n, i32 7 acq_rel monotonic, align 4
  %cx0 = extractvalue { i32, i1 } %cx, 1
  %x = uitofp nneg i32 %n to double
  %y = select nnan nsz i1 %cx0, double %x, double %v
  %fr = freeze double %y
  %w = insertelement <2 x double> poison, double %fr, i64 0
  %s = shufflevector <2 x double> %w, <2 x double> zeroinitializer, <4 x i32> <i32 0, i32 poison, i32 2, i32 3>
  %e = extractelement <4 x double> %s, i32 0
  %vg = getelementptr i8, ptr %p, <2 x i64> splat (i64 2)
  %vl = insertelement <2 x ptr> %vg, ptr null, i32 1
  %vc = fcmp fast olt <2 x double> %w, splat (double 1.000000e+00)
  %vs = select <2 x i1> %vc, <2 x double> %w, <2 x double> <double 1.000000e+00, double undef>
  %agg = insertvalue { [2 x double], i64 } { [2 x double] [double 1.0, double 2.0], i64 ptrtoint (ptr @g to i64) }, double %e, 0, 1
  %ag2 = extractvalue { [2 x double], i64 } %agg, 0
  %asm = tail call i64 asm sideeffect "mov $1, $0 ; (x)", "=r,r"(i64 4) #2, !srcloc !5
  call void @llvm.assume(i1 true) [ "align"(ptr %p, i64 16), "nonnull"(ptr %p) ]
  %ce = load ptr, ptr getelementptr inbounds (i8, ptr @table, i64 8), align 8
  %cf = call double @llvm.experimental.constrained.fadd.f64(double %v, double 1.0, metadata !"round.dynamic", metadata !"fpexcept.strict") #2
  %ic = call fast noundef double %ce(double nofpclass(nan inf) %v, ptr "key"="va, !lue" captures(none) %p), !y !5
  %sc = call nnan { double, double } @llvm.sincos.f64(double %v)
  %rr = call range(i32 0, 3) i32 @rng(i32 range(i32 0, 7) 3)
  %half = fptrunc double %v to half
  %back = fcmp uno half %half, 0xH7E00
  switch i32 %n, label %ok [
    i32 -2, label %ok
    i32 0, label %"last one"
  ], !prof !6

ok:                                               ; preds = %entry, %entry
  %inv = invoke cc 10 noundef i32 @"fun;c"(i32 noundef 3) #2 [ "deopt"(i32 1) ]
          to label %"last one" unwind label %lp, !x !5

"last one":                                       ; preds = %ok, %entry
  %ph = phi ptr [ %"a b", %ok ], [ null, %entry ]
  ret ptr %ph

lp:                                               ; preds = %ok
  %l = landingpad { ptr, i32 }
          cleanup
          catch ptr null
  resume { ptr, i32 } %l
}

define void @addresses(ptr %jump, ptr addrspace(1) %p, <vscale x 4 x i32> %v, ...) {
entry:
  %q = addrspacecast ptr addrspace(1) %p to ptr
  %list = alloca ptr, align 8
  %x = va_arg ptr %list, double
  %f = freeze <vscale x 4 x i32> %v
  %u = fneg double %x
  switch i32 7, label %a [
  ]

a:                                                ; preds = %a, %entry
  indirectbr ptr %jump, [label %a, label %b]

b:                                                ; preds = %a
  unreachable
}

attributes #0 = { nofree "no-trapping-math"="true" }
attributes #1 = { uwtable }
attributes #2 = { nounwind strictfp }

!5 = !{i32 1}
!6 = !{!"branch_weights", i32 1, i32 2, i32 3}
"""


def reprinted_by_llvm(text):
    """LLVM's own print, in a context of its own: named types are numbered within a context."""
    module = ll.parse_assembly(text, ll.create_context())
    module.verify()
    return str(module).splitlines()[1:]


def assert_round_trip(text):
    """The laws: R1, the text is a fixed point, and LLVM reads the same module out of it."""
    module = parse_module(text)
    printed = print_module(module)
    again = parse_module(printed)
    assert structure(again) == structure(module)
    assert print_module(again) == printed
    assert reprinted_by_llvm(printed) == reprinted_by_llvm(text)


@pytest.mark.parametrize("name", CORPUS)
def test_r1_round_trip(name):
    assert_round_trip(captured(name).text)
    assert_round_trip(normalised(name))


@pytest.mark.parametrize("name", ["np_broadcast", "np_arange", "np_full"])
def test_round_trip_of_vectorised_code(name):
    module = ll.parse_assembly(captured(name).text)
    options = ll.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = ll.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)
    assert " x double>" in str(module)
    assert_round_trip(str(module))


def test_round_trip_of_marked_calls():
    module = captured("calls_helper", HELPER_IS_MARKED)
    assert module.marked
    assert_round_trip(module.text)


def test_round_trip_of_rare_instructions():
    assert_round_trip(RARE)
    assert_round_trip(str(ll.parse_assembly(RARE, ll.create_context())))


def test_structure_sees_every_change():
    module = parse_module(RARE)
    before = structure(module)
    for function in module.defined():
        for instruction in function.instructions():
            for change in ("opcode", "name", "flags"):
                old = getattr(instruction, change)
                setattr(instruction, change, ("other",) if change == "flags" else "other")
                assert structure(module) != before
                setattr(instruction, change, old)
    assert structure(module) == before


def test_a_module_without_its_declarations():
    text = "define double @f(double %x) {\nentry:\n  %r = fadd double %x, 1.0\n  ret double %r\n}"
    function = parse_module(text).functions["f"]
    assert print_function(function) == text
    assert print_instruction(function.entry.instructions[0]) == "%r = fadd double %x, 1.0"
    assert structure(function) == structure(parse_module(text).functions["f"])


def test_an_opcode_that_cannot_be_printed():
    instruction = parse_module("define void @f() {\n  ret void\n}").functions["f"].entry.terminator
    instruction.opcode = "mystery"
    with pytest.raises(KeyError, match="mystery"):
        print_instruction(instruction)
