"""The builder makes instructions that LLVM accepts, under names that never clash."""

from __future__ import annotations

import llvmlite.binding as ll
import pytest

from activerules.ir.llvm.builder import Builder, Namer, add_incoming
from activerules.ir.llvm.model import Block
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.types import DOUBLE, FLOAT, I8, I32, I64, VOID, StructType
from tests.ir.llvm.structure import structure

PAIR = StructType((I64, DOUBLE))


def empty(parameters="double %x, ptr %p, i64 %n, i1 %c"):
    text = f"define double @f({parameters}) {{\nentry:\n  ret double 0.0\n}}\n"
    module = parse_module(text)
    function = module.functions["f"]
    function.entry.instructions.clear()
    return module, function


def test_every_method_makes_valid_instructions():
    module, f = empty()
    x, p, n, c = f.arguments
    b = Builder(f.entry, Namer("d"))
    y = b.binary("fadd", x, b.const(DOUBLE, 1.5), flags=("reassoc",), hint="sum")
    y = b.fadd(y, x, flags=("nsz",))
    y = b.fsub(b.fmul(y, x), b.fdiv(b.fneg(y), x))
    y = b.select(b.fcmp("olt", y, x), y, x)
    narrow = b.cast("fptrunc", y, FLOAT)
    m = b.binary("mul", n, b.const(I64, 3), flags=("nsw",))
    slot = b.alloca(PAIR, hint="slot")
    room = b.alloca(I8, m, align=16)
    field = b.gep(PAIR, slot, [b.const(I64, 0), b.const(I32, 1)], flags=("inbounds",))
    b.store(y, field, align=8)
    z = b.load(DOUBLE, field, metadata=", !invariant.load !0")
    pair = b.load(PAIR, slot)
    pair = b.insertvalue(pair, b.intrinsic("llvm.sin", DOUBLE, [z]), 1)
    z = b.extractvalue(pair, DOUBLE, 1)
    z = b.call("llvm.ldexp.f64.i32", DOUBLE, [z, b.const(I32, 2)])
    b.call("llvm.memset.p0.i64", VOID, [room, b.const(I8, 0), n, c])
    z = b.call("tanh", DOUBLE, [z], attributes="nounwind")
    b.call(p, VOID, [narrow])
    loop, last, never = (Block(name, [], f) for name in ("loop", "last", "never"))
    f.blocks += [loop, last, never]
    b.cond_br(b.icmp("sgt", n, b.const(I64, 0)), loop, last)
    inside = b.at(loop)
    k = inside.phi(I64, [(n, f.entry)], hint="k")
    less = inside.binary("sub", k, inside.const(I64, 1))
    add_incoming(k, less, loop)
    inside.switch(less, last, [(1, loop), (7, never)])
    b.at(never).unreachable()
    b.at(last).ret(z)

    names = [i.name for i in f.instructions() if i.name]
    assert len(set(names)) == len(names)
    assert names[0] == "sum.d0"
    module.trailer.append("!0 = !{}")
    del b.declarations["llvm.memset.p0.i64"]  # its last parameter must be a constant
    f.entry.instructions = [
        i for i in f.entry.instructions if i.callee_name != "llvm.memset.p0.i64"
    ]
    text = print_module(module) + "\n".join(b.declarations.values())
    ll.parse_assembly(text).verify()
    assert structure(parse_module(print_module(module))) == structure(module)


def test_declarations():
    b = Builder([])
    x = b.const(FLOAT, 1)
    b.intrinsic("llvm.pow", FLOAT, [x, x])
    b.call("llvm.assume", VOID, [b.const(I64, 1)])
    b.call("powf", FLOAT, [x, x])
    assert b.declarations == {
        "llvm.pow.f32": "declare float @llvm.pow.f32(float, float)",
        "llvm.assume": "declare void @llvm.assume(i64)",
        "powf": "declare float @powf(float, float)",
    }
    with pytest.raises(ValueError, match="no intrinsic suffix"):
        b.intrinsic("llvm.sin", PAIR, [x])


def test_appends_to_a_list_or_a_block_without_flags():
    block, instructions = Block("b"), []
    for target in (block, instructions):
        b = Builder(target)
        x = b.const(DOUBLE, 2.0)
        made = b.fmul(x, x)
        assert made.flags == ()
    assert block.instructions[0].parent is block
    assert [i.name for i in instructions] == ["d0"]


def test_namer_avoids_taken_names():
    namer = Namer("t", taken={"t0", "x.t1"})
    assert [namer(), namer("x"), namer("x")] == ["t1", "x.t2", "x.t3"]
