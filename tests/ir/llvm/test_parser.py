"""What the parser makes of LLVM's text: values, types, attributes, errors that quote the line."""

from __future__ import annotations

import math
import re
import struct
import time

import llvmlite.binding as ll
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activerules.errors import IRSyntaxError
from activerules.ir.llvm import types as T
from activerules.ir.llvm.constants import constant, number_of
from activerules.ir.llvm.model import Constant, GlobalRef
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from corpus import captured
from tests.ir.llvm.structure import structure

PARAMETERS = (
    "double %x, double %y, i64 %n, i1 %c, ptr %p, { i64, [2 x double] } %s, <2 x double> %v"
)


def parse(text, before=""):
    """The instruction `text` in a function of `PARAMETERS`."""
    body = f"{before}define void @f({PARAMETERS}) {{\nentry:\n  {text}\n  ret void\n}}\n"
    return parse_module(body).functions["f"].entry.instructions[0]


def refs(instruction):
    return [v.ref for v in instruction.operands]


def test_binary():
    i = parse("%r = fmul nnan nsz double %x, 1.5")
    assert (i.opcode, i.name, i.type, i.flags) == ("fmul", "r", T.DOUBLE, ("nnan", "nsz"))
    assert refs(i) == ["%x", "1.5"]
    assert i.operands[0] is i.parent.parent.arguments[0]


def test_compare():
    i = parse("%r = icmp samesign slt i64 %n, -1")
    assert (i.type, i.flags, i.attributes["predicate"]) == (T.I1, ("samesign",), "slt")
    assert str(parse("%r = fcmp fast olt <2 x double> %v, %v").type) == "<2 x i1>"


def test_select_and_cast():
    assert refs(parse("%r = select i1 %c, double %x, double %y")) == ["%c", "%x", "%y"]
    i = parse("%r = sitofp i64 %n to float")
    assert (i.type, refs(i)) == (T.FLOAT, ["%n"])


def test_memory():
    load = parse("%r = load double, ptr %p, align 8, !tbaa !3, !noundef !4")
    assert (load.type, refs(load), load.attributes["align"]) == (T.DOUBLE, ["%p"], 8)
    assert load.attributes["metadata"] == ", !tbaa !3, !noundef !4"
    store = parse("store volatile double %x, ptr %p, align 4")
    assert (store.name, refs(store), store.type) == (None, ["%x", "%p"], T.VOID)
    assert store.attributes == {"volatile": True, "align": 4}
    atomic = parse('%r = load atomic i64, ptr %p syncscope("one") acquire, align 8')
    assert atomic.attributes["atomic"] == 'syncscope("one") acquire'
    alloca = parse("%r = alloca { i64, double }, i64 %n, align 16")
    assert str(alloca.attributes["allocated"]) == "{ i64, double }"
    assert (alloca.type, refs(alloca)) == (T.PTR, ["%n"])


def test_getelementptr():
    i = parse("%r = getelementptr inbounds nuw [4 x double], ptr %p, i64 0, i64 %n")
    assert (i.type, i.flags, refs(i)) == (T.PTR, ("inbounds", "nuw"), ["%p", "0", "%n"])
    assert i.attributes["source"] == T.ArrayType(4, T.DOUBLE)
    assert (
        str(parse("%r = getelementptr i8, ptr %p, <2 x i64> zeroinitializer").type) == "<2 x ptr>"
    )


def test_aggregates():
    i = parse("%r = extractvalue { i64, [2 x double] } %s, 1, 0")
    assert (i.type, i.attributes["indices"]) == (T.DOUBLE, (1, 0))
    i = parse("%r = insertvalue { i64, [2 x double] } %s, double %x, 1, 1")
    assert (str(i.type), i.attributes["indices"]) == ("{ i64, [2 x double] }", (1, 1))
    named = "%pair = type { double, i64 }\n"
    assert parse("%r = extractvalue %pair undef, 1", named).type is T.I64


def test_call():
    i = parse(
        'musttail call fast fastcc noundef nonnull ptr @"g h"(double noundef %x, ptr align 8 %p, '
        'ptr dereferenceable(8) "a, b"="c" %p, i64 3) #5, !dbg !7'
    )
    assert i.opcode == "call"
    assert i.callee_name == '"g h"'
    assert (i.type, refs(i)) == (T.PTR, ["%x", "%p", "%p", "3"])
    assert i.flags == ("fast",)
    assert i.attributes == {
        "tail": "musttail ",
        "cconv": "fastcc",
        "return_attributes": "noundef nonnull",
        "argument_attributes": ["noundef", "align 8", 'dereferenceable(8) "a, b"="c"', ""],
        "call_attributes": "#5",
        "metadata": ", !dbg !7",
    }


def test_call_of_a_vararg_function_a_pointer_and_assembler():
    i = parse("%r = call i32 (ptr, ...) @printf(ptr %p, double %x)")
    assert (i.type, str(i.attributes["function_type"])) == (T.I32, "i32 (ptr, ...)")
    indirect = parse("%r = call double %p(double %x)")
    assert indirect.callee_name is None
    assert indirect.callee is indirect.parent.parent.arguments[4]
    assembler = parse('call void asm sideeffect "nop ; (", "~{flags}"()')
    assert isinstance(assembler.callee, Constant)


def test_operand_bundles_and_metadata_arguments():
    i = parse('call void @llvm.assume(i1 true) [ "align"(ptr %p, i64 16) ]')
    assert i.attributes["call_attributes"] == '[ "align"(ptr %p, i64 16) ]'
    i = parse(
        "call void @llvm.foo(metadata ptr %p, metadata !DIExpression(DW_OP_deref, 3), i64 %n)"
    )
    assert refs(i) == ["ptr %p", "!DIExpression(DW_OP_deref, 3)", "%n"]
    assert i.operands[0].type is T.METADATA


def test_constants_name_their_globals():
    i = parse("store ptr getelementptr inbounds (i8, ptr @table, i64 8), ptr @place")
    value, place = i.operands
    assert value.globals == ("table",)
    assert isinstance(place, GlobalRef)
    i = parse("store { i64, ptr } { i64 ptrtoint (ptr @a to i64), ptr @b }, ptr %p")
    assert i.operands[0].globals == ("a", "b")


LOOP = """
define double @loop(i64 %n) {
entry:
  br label %head

head:                                             ; preds = %head, %entry
  %i = phi i64 [ 0, %entry ], [ %next, %head ]
  %s = phi double [ 0.0, %entry ], [ %t, %head ]
  %next = add nsw i64 %i, 1
  %t = fadd double %s, 1.0
  %more = icmp slt i64 %next, %n
  br i1 %more, label %head, label %"the end", !llvm.loop !0

"the end":                                        ; preds = %head
  switch i64 %n, label %a [
    i64 0, label %b
    i64 1, label %a
  ]

a:
  ret double %t

b:
  unreachable
}
"""


def test_p3_forward_references_are_the_same_object():
    function = parse_module(LOOP).functions["loop"]
    entry, head, end, a, b = function.blocks
    i, s, following, t, _, branch = head.instructions
    assert list(head.phis) == [i, s]
    assert i.operands[1] is following
    assert s.operands[1] is t
    assert i.blocks == [entry, head]
    assert branch.blocks == head.successors == [head, end]
    assert end.name == '"the end"'
    assert end.terminator.blocks == [a, b, a]
    assert refs(end.terminator) == ["%n", "0", "1"]
    assert all(block.parent is function for block in function.blocks)
    assert all(x.parent is head for x in head.instructions)


NUMBERED = """
define i32 @f(i32, ptr %q, i32) {
  %3 = add i32 %0, %1
  br label %4

4:
  %5 = call i32 @g(i32 %3)
  call i32 @g(i32 %5)
  ret i32 %5
}
"""


def test_numbered_values_and_the_unnamed_entry():
    function = parse_module(NUMBERED).functions["f"]
    assert [a.name for a in function.arguments] == ["0", "q", "1"]
    assert [b.name for b in function.blocks] == ["2", "4"]
    unused = function.blocks[1].instructions[1]
    assert unused.name is not None
    assert print_module(parse_module(NUMBERED)).count("call i32 @g") == 2


def test_whole_module():
    module = parse_module(
        'source_filename = "x"\n%op = type opaque\n%pair = type { double, %op* }\n'.replace(
            "%op*", "ptr"
        )
        + "$c = comdat any\n"
        '@g = internal constant [2 x i8] c"a;", align 1 ; note\n'
        '@"a.b" = external global double\n'
        "declare !dbg !3 noundef double @h(double noundef, ...) local_unnamed_addr #1\n"
        "define internal i64 @k(i64 noundef %0) #2 {\n  ret i64 %0\n}\n"
        "attributes #1 = { nounwind }\n!3 = !{}\nuselistorder ptr @g, { 1, 0 }\n"
    )
    assert module.header == ['source_filename = "x"']
    assert {name: str(t) for name, t in module.types.items()} == {
        "op": "None",
        "pair": "{ double, ptr }",
    }
    assert list(module.globals) == ["$c", "g", '"a.b"']
    h, k = module.functions.values()
    assert (h.prefix, h.result, h.suffix, h.vararg) == (
        "!dbg !3 noundef",
        T.DOUBLE,
        "local_unnamed_addr #1",
        True,
    )
    assert h.is_declaration
    assert (k.prefix, k.suffix, k.arguments[0].attributes) == ("internal", "#2", "noundef")
    assert module.defined() == [k]
    assert len(module.trailer) == 2


def test_p2_only_comments_and_debug_records_are_dropped():
    text = (
        "; a comment\ndefine void @f(ptr %p) { ; here\n"
        "entry: ; and here\n  #dbg_value(ptr %p, !1, !DIExpression(), !2)\n\n"
        '  call void @g(ptr @"semi;colon") ; last\n  ret void\n}\n'
    )
    function = parse_module(text).functions["f"]
    assert [i.opcode for i in function.instructions()] == ["call", "ret"]
    assert refs(function.entry.instructions[0]) == ['@"semi;colon"']


def test_uninterpreted_instructions_keep_text_and_type():
    place = "ptr getelementptr inbounds (i8, ptr @g, i64 8)"
    assert parse(f"%r = atomicrmw xchg {place}, i32 0 release, align 4").type == T.I32
    i = parse("%r = atomicrmw fadd ptr %p, double %x seq_cst, align 8")
    assert (i.type, i.operands) == (T.DOUBLE, [])
    assert i.attributes["verbatim"] == "atomicrmw fadd ptr %p, double %x seq_cst, align 8"
    assert str(parse("%r = cmpxchg ptr %p, i64 %n, i64 7 acq_rel monotonic").type) == "{ i64, i1 }"
    assert parse("fence seq_cst").attributes["verbatim"] == "fence seq_cst"


@pytest.mark.parametrize(
    "text",
    [
        "i1", "i128", "half", "bfloat", "x86_fp80", "ptr", "ptr addrspace(3)", "{}",
        "[0 x i8]", "[3 x [2 x { i8, ptr }]]", "<4 x double>", "<vscale x 2 x ptr>",
        "<{ i8, i64 }>", '%"quoted name"', "%named", "{ { i64 }, <2 x i1> }",
    ],
)  # fmt: skip
def test_types_are_interned_and_print_back(text):
    first, second = (parse(f"%r = freeze {text} poison").type for _ in range(2))
    assert str(first) == text
    assert first is second


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%r = frobnicate double %x", "the opcode 'frobnicate' is not known"),
        ("%r = fadd double %x, %nowhere", "the value is not defined"),
        ("%r = fadd double %x", "',' was expected"),
        ("%r = fadd dubble %x, %y", "a type was expected"),
        ("%r = fadd double %x, %y, %x", "unexpected text"),
        ("%r = extractvalue { i64, i64 } undef, 2", "the indices do not fit the type"),
        ("br label %x", "a block was expected"),
        ("%r = call double @f(double %x", "',' was expected"),
        ("%r = freeze [2 x i64", "a bracket is not closed"),
        ("%r = freeze [n x i64] undef", "a length was expected"),
        ("%r = extractelement double %x, i32 0", "a vector was expected"),
        ("%r = load double, ptr %p, align x", "an integer was expected"),
        ("= fadd double %x, %y", "neither a label nor an instruction"),
        ("%r = freeze double frob", "a value was expected"),
    ],
)
def test_errors_quote_the_line(line, why):
    with pytest.raises(IRSyntaxError, match=re.escape(why)) as caught:
        parse(line, before="; one line more\n")
    ((label, quoted, position),) = caught.value.where
    assert (label, position) == ("at the line", "line 4")
    assert quoted in line
    assert quoted


@pytest.mark.parametrize(
    "text",
    [
        "define void @f() {\nret void\n",
        "nonsense\n",
        "%t = tipe i8\n",
        "@g\n",
        "define void @f()\n",
    ],
)
def test_errors_at_module_level(text):
    with pytest.raises(IRSyntaxError):
        parse_module(text)


# --- literals ---


def literal(t, text):
    return parse(f"%r = freeze {t} {text}").operands[0]


@given(st.floats(width=64))
def test_double_literals_are_exact(x):
    found = number_of(literal(T.DOUBLE, constant(T.DOUBLE, x).text))
    assert struct.pack("d", found) == struct.pack("d", x)


@pytest.mark.parametrize(("t", "width"), [(T.FLOAT, 32), (T.FLOAT_TYPES["half"], 16)])
@given(st.data())
def test_narrow_literals_are_exact(t, width, data):
    x = data.draw(st.floats(width=width))
    found = number_of(literal(t, constant(t, x).text))
    assert found == x or (math.isnan(x) and math.isnan(found))
    assert math.copysign(1, found) == math.copysign(1, x)


@given(st.floats(allow_nan=False, width=64))
def test_float_literals_round_to_nearest_and_llvm_accepts_them(x):
    text = constant(T.FLOAT, x).text
    module = ll.parse_assembly(f"@x = global float {text}")
    module.verify()
    found = number_of(constant(T.FLOAT, x))
    assert found == (struct.unpack("f", struct.pack("f", x))[0] if abs(x) < 3.4e38 else found)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integer_literals(n):
    assert number_of(literal(T.I64, constant(T.I64, n).text)) == n


def test_other_literals():
    assert [constant(T.I1, k).text for k in (0, 1)] == ["false", "true"]
    assert constant(T.PTR, None).text == "null"
    assert number_of(constant(T.FLOAT_TYPES["bfloat"], 1.00390625 + 2**-9)) == 1.0078125
    assert number_of(Constant(T.DOUBLE, "zeroinitializer")) == 0.0
    assert number_of(Constant(T.DOUBLE, "undef")) is None
    assert number_of(GlobalRef("g")) is None
    for t, number in ((T.DOUBLE, None), (T.PTR, 3), (T.I64, 0.5), (T.VOID, 1)):
        with pytest.raises(ValueError, match="no literal"):
            constant(t, number)


def test_speed():
    text = captured("np_eigh").text
    parse_module(text)
    start = time.process_time()
    module = parse_module(text)
    spent = time.process_time() - start
    count = sum(len(b.instructions) for f in module.defined() for b in f.blocks)
    # measured 15 us; the bound leaves room for a busy machine
    assert spent / count < 100e-6


@pytest.mark.parametrize("text", [LOOP, NUMBERED])
def test_p1_printed_modules_are_parsed_to_equal_ones(text):
    module = parse_module(text)
    assert structure(parse_module(print_module(module))) == structure(module)


def test_names_leave_room_for_those_that_derivatives_add_to_them():
    long = "x" * 1020
    text = f"define double @f(double %a) {{\nentry:\n  br label %{long}.b\n\n{long}.b:\n"
    text += f"  %{long} = fmul double %a, %a\n  ret double %{long}\n}}\n"
    function = parse_module(text).functions["f"]
    names = function.local_names()
    assert len(names) == 4
    assert max(map(len, names)) < 600
    ll.parse_assembly(print_module(parse_module(text)))
