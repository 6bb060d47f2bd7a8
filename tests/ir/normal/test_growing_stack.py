"""Stack memory of variable size: counted while it is made and released, on the heap."""

import ctypes
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from activerules.errors import UnsupportedIR
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal import normal_form
from activerules.ir.normal.growing_stack import from_heap
from activerules.ir.text.normalise import canonical, exposed, normalise
from tests.ir.harness import compile_text

CASES = Path(__file__).parents[1] / "cases"
SOMETIMES = """
declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)
define double @f(ptr %p, i64 %n) {
entry:
  %x = load double, ptr %p
  %large = icmp sgt i64 %n, 2
  br i1 %large, label %make, label %end
make:
  %before = call ptr @llvm.stacksave.p0()
  %row = alloca double, i64 %n
  %last = getelementptr double, ptr %row, i64 1
  store volatile double %x, ptr %last
  %y = load volatile double, ptr %last
  call void @llvm.stackrestore.p0(ptr %before)
  br label %end
end:
  %r = phi double [ %x, %entry ], [ %y, %make ]
  ret double %r
}
"""
RELEASED_BEHIND = SOMETIMES.replace("  call void @llvm.stackrestore.p0(ptr %before)\n  br", "  br")
RELEASED_BEHIND = RELEASED_BEHIND.replace("  %before = call ptr @llvm.stacksave.p0()\n", "")
RELEASED_BEHIND = RELEASED_BEHIND.replace(
    "  %x = load", "  %before = call ptr @llvm.stacksave.p0()\n  %x = load"
)
RELEASED_BEHIND = RELEASED_BEHIND.replace(
    "  ret", "  call void @llvm.stackrestore.p0(ptr %before)\n  ret"
)


def rewritten(text):
    module = parse_module(normalise(exposed(canonical(text)), "f"))
    from_heap(module)
    return module


def heap_events(text, n):
    """What the function asks of the heap: what it makes, and what it releases."""
    made, released, kept = [], [], []

    def make(size):
        kept.append(ctypes.create_string_buffer(int(size) + 64))
        made.append((ctypes.addressof(kept[-1]) + 63) // 64 * 64)
        return made[-1]

    makes = {
        "malloc": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(make),
        "aligned_alloc": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            lambda alignment, size: make(size)
        ),
        "free": ctypes.CFUNCTYPE(None, ctypes.c_void_p)(released.append),
    }
    for name, function in makes.items():
        address = ctypes.cast(function, ctypes.c_void_p).value
        llvm.add_symbol(f"counted_{name}", address)
        text = text.replace(f"@{name}(", f"@counted_{name}(")
    argument = np.arange(1.0, 9.0)
    result = compile_text(text, None).function("f")(argument.ctypes.data, n)
    return result, made, [at for at in released if at]


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", ["in a loop", "on one of two paths"])
def test_g1_memory_is_released_where_the_stack_would_and_only_if_it_was_made(name, n):
    text = SOMETIMES if name != "in a loop" else (CASES / "vla_in_loop.ll").read_text()
    module = rewritten(text)
    assert not any(
        i.opcode == "alloca" and i.operands for i in module.functions["f"].instructions()
    )
    result, made, released = heap_events(print_module(module), n)
    assert sorted(made) == sorted(released)
    assert len(made) == (n if name == "in a loop" else int(n > 2))
    argument = np.arange(1.0, 9.0)
    assert compile_text(text, None).function("f")(argument.ctypes.data, n) == result


@pytest.mark.parametrize("text", [(CASES / "vla_never_restored.ll").read_text(), RELEASED_BEHIND])
def test_g2_stacks_that_stay_are_refused_by_the_normal_form(text):
    function = rewritten(text).functions["f"]
    normal_form.tidy(function)
    flow = control_flow(function)
    with pytest.raises(UnsupportedIR, match="N7"):
        normal_form.check(function, flow, flow.order)
