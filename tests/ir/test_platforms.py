"""The engine with the data layouts and triples of other platforms.

Machines of these platforms are not at hand: what is shown is that the derivative keeps the module's
layout and triple, that LLVM makes machine code of it for that platform, and that with the layout
alone (pointer and integer alignment, mangling) the derivative computes the same on this machine.
"""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest

from activerules.annotations.activity import Const, Duplicated
from activerules.ir import differentiate

PLATFORMS = {
    "aarch64-unknown-linux-gnu": "e-m:e-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32",
    "arm64-apple-darwin23.0.0": "e-m:o-i64:64-i128:128-n32:64-S128-Fn32",
    "x86_64-apple-darwin23.0.0": "e-m:o-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128"
    "-n8:16:32:64-S128",
    "x86_64-pc-windows-msvc": "e-m:w-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128"
    "-n8:16:32:64-S128",
}

# Needs a tape: exp of what is overwritten in the loop, and a length known when it runs.
PROGRAM = """
target datalayout = "{layout}"
target triple = "{triple}"

declare double @exp(double)

define double @chain(ptr %x, i64 %n) {{
entry:
  %none = icmp eq i64 %n, 0
  br i1 %none, label %exit, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi double [ 0.0, %entry ], [ %sum, %loop ]
  %p = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %p
  %minus = fneg double %v
  %e = call double @exp(double %minus)
  store double %e, ptr %p
  %square = fmul double %e, %s
  %part = fadd double %square, %e
  %sum = fadd double %s, %part
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  %result = phi double [ 0.0, %entry ], [ %sum, %loop ]
  ret double %result
}}
"""


def derived(layout, triple):
    text = PROGRAM.format(layout=layout, triple=triple)
    return differentiate(text, "chain", [Duplicated, Const])


@pytest.mark.parametrize(("triple", "layout"), PLATFORMS.items())
def test_machine_code_can_be_made_for_the_platform(triple, layout):
    text = derived(layout, triple)
    module = llvm.parse_assembly(text)
    module.verify()
    assert (module.triple, module.data_layout) == (triple, layout)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2)
    assert len(machine.emit_object(module)) > 1000
    defined = {"chain", "chain.gradient", "chain.augmented", "chain.reverse"}
    undefined = {f.name for f in module.functions if f.is_declaration and "llvm." not in f.name}
    assert undefined - defined <= {"exp", "malloc", "free", "calloc", "realloc"}


@pytest.mark.parametrize("layout", sorted(set(PLATFORMS.values())))
def test_the_derivative_with_the_layout_of_a_platform(layout):
    host = llvm.get_process_triple()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    text = derived(layout, host).replace(layout, str(machine.target_data))
    llvm.initialize_native_asmprinter()
    with llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine) as engine:
        engine.finalize_object()
        pointer, double = ctypes.POINTER(ctypes.c_double), ctypes.c_double
        kind = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_int64, double)
        gradient = kind(engine.get_function_address("chain.gradient"))
        x, shadow = np.array([0.3, -0.2, 0.7]), np.zeros(3)
        passed = [array.ctypes.data_as(pointer) for array in (x, shadow)]
        gradient(*passed, 3, 1.0)
    np.testing.assert_allclose(shadow, by_complex_steps([0.3, -0.2, 0.7]), rtol=1e-13)


def by_complex_steps(x):
    def chain(x):
        s = 0.0
        for e in np.exp(-np.asarray(x)):
            s = s + (e * s + e)
        return s

    steps = 1e-30j * np.eye(len(x))
    return [chain(x + step).imag / 1e-30 for step in steps]
