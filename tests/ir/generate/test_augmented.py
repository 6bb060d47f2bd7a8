"""The augmented primal, and the gradient that calls it, against the primal: on random programs."""

import random

import numpy as np

from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.parser import parse_module
from tests.ir import test_random_programs as reverse
from tests.ir.harness import Const, Duplicated, compile_text
from tests.ir.random_programs import LENGTH, Generator, TooLong, evaluate, make_inputs

STRUCTURES = """
define void @f(ptr noalias %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr double, ptr %p, i64 %i
  %x = load double, ptr %at
  %e = call double @exp(double %x)
  %y = fmul double %e, %x
  store double %y, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
declare double @exp(double)
"""


def test_p1_it_computes_what_the_primal_computes_and_writes_the_same_memory():
    """To the last bit: the same operations, in the same order."""
    rng, compared = random.Random(5), 0
    while compared < 15:
        program = Generator(rng).program(12)
        inputs = make_inputs(rng.randrange(1 << 30))
        try:
            evaluate(program, inputs)
        except (TooLong, OverflowError):
            continue
        text = reverse.differentiated(program, "noalias ")
        if text is None:
            continue
        compiled = compile_text(text, None)
        left = []
        for name in ("f", "f.gradient"):
            arrays = [inputs.a.copy(), inputs.b.copy(), np.array(inputs.index)]
            addresses = [array.ctypes.data for array in arrays]
            if name == "f":
                compiled.function("f")(*addresses, inputs.n, inputs.x, inputs.y)
            else:
                shadows = np.zeros((2, LENGTH))
                mixed = [addresses[0], shadows[0].ctypes.data, addresses[1]]
                mixed += [shadows[1].ctypes.data, addresses[2]]
                compiled.function("f.gradient")(*mixed, inputs.n, inputs.x, inputs.y, 1.0)
            left.append([array.tobytes() for array in arrays])
        assert left[0] == left[1]
        compared += 1


def test_p2_shadow_memory_holds_no_floats_for_it():
    """It neither reads nor writes a float there: nothing in it takes the shadow at all."""
    module = parse_module(differentiate(STRUCTURES, "f", [Duplicated, Const]))
    augmented = module.functions["f.augmented"]
    shadow = augmented.arguments[1]
    assert [a.type for a in augmented.arguments[:2]] == [shadow.type] * 2
    reached = {shadow}
    for i in augmented.instructions():
        if any(o in reached for o in i.operands):
            assert i.opcode not in {"load", "store"} or not i.type.is_float
            assert i.opcode != "store" or not i.operands[0].type.is_float
            reached.add(i)
