"""Selects of floats by conditions of the tape become comparisons of floats, with equal values."""

import itertools
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from llvmlite import binding

from activerules.ir.generate.sweep import KEPT_CONDITION
from activerules.ir.generated.masks import compare_floats
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.verify import verified
from tests.ir.harness import compile_text

# a cotangent that goes to one of two candidates, and whether the condition held
SELECTS = """
define i8 @f(ptr %byte, ptr %g, ptr %out) {{
  %kept = load i8, ptr %byte
  %c = trunc i8 %kept to i1
  %x = load {type}, ptr %g
  %first = select i1 %c, {type} %x, {type} 0.0
  %second = select i1 %c, {type} 0.0, {type} %x
  %third = select i1 %c, {type} %x, {type} %second
  store {type} %first, ptr %out
  %q = getelementptr {type}, ptr %out, i64 1
  store {type} %second, ptr %q
  %r = getelementptr {type}, ptr %out, i64 2
  store {type} %third, ptr %r
  %which = zext i1 %c to i8
  %one = select i1 %c, i8 1, i8 %which
  ret i8 %one
}}
"""
NUMBERS = (1.5, -2.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324)
TYPES = {"double": np.float64, "float": np.float32}


def rewritten(text, marked=True):
    module = parse_module(text)
    for i in module.functions["f"].instructions():
        if i.opcode == "trunc" and marked:
            i.attributes[KEPT_CONDITION] = True
    compare_floats([module.functions["f"]])
    return module


@pytest.mark.parametrize("name", TYPES)
def test_m1_every_select_has_the_bits_it_had(name):
    dtype, text = TYPES[name], SELECTS.format(type=name)
    module = rewritten(text)
    selects = [i for i in module.functions["f"].instructions() if i.opcode == "select"]
    assert {i.operands[0].opcode for i in selects if i.type.is_float} == {"fcmp"}
    texts = text, verified(print_module(module))
    before, after = (compile_text(one).function("f") for one in texts)
    for byte, number in itertools.product((0, 1), NUMBERS):
        kept, g = np.array([byte], np.uint8), np.array([number], dtype)
        results = []
        for function in (before, after):
            out = np.full(3, 7, dtype)
            assert function(kept.ctypes.data, g.ctypes.data, out.ctypes.data) == byte
            results.append(out.tobytes())
        assert results[0] == results[1]


def test_m2_other_selects_stay():
    text = SELECTS.format(type="double")
    assert print_module(rewritten(text, marked=False)) == print_module(parse_module(text))
    module = rewritten(text)
    (integer,) = [i for i in module.functions["f"].instructions() if i.name == "one"]
    assert integer.operands[0].opcode == "trunc"


def test_before_avx512_nothing_branches():
    """As LLVM compiles it: a jump in the machine code is one that can be mispredicted."""
    machine = binding.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        cpu="znver3", opt=3
    )
    text = SELECTS.format(type="double")
    assert _jumps(machine, parse_module(text)) > 0
    assert _jumps(machine, rewritten(text)) == 0


def _jumps(machine, module):
    parsed = binding.parse_assembly(print_module(module))
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(parsed, builder)
    lines = machine.emit_assembly(parsed).splitlines()
    return sum(line.strip().startswith("j") for line in lines)


PROGRAM = """
import numpy as np
import activerules as ar
from numba import njit

@njit
def warp(x, y):
    cost = np.full((len(x) + 1, len(y) + 1), 1e300)
    cost[0, 0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            least = min(min(cost[i, j], cost[i, j + 1]), cost[i + 1, j])
            cost[i + 1, j + 1] = (x[i] - y[j]) ** 2 + least
    return cost[len(x), len(y)]

rng = np.random.default_rng(1)
x, y = rng.normal(size=9), rng.normal(size=11)
for k in (0, 1):
    found = ar.grad(warp, argnums=k)(x, y)
    np.testing.assert_allclose(found, ar.testing.gradient_fd(warp, (x, y), k), 1e-6, 1e-7)
from activerules.numba_ext.codegen.processor import selects_floats_by_branches
print(selects_floats_by_branches())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names a processor of x86")
def test_a_gradient_for_a_processor_without_mask_registers():
    features = ",".join(f"-{name}" for name in binding.get_host_cpu_features() if "avx512" in name)
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": features}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["True"]
