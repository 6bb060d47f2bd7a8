"""The augmented primal, and the gradient that calls it, against the primal: on random programs."""

import random
from collections import Counter

import numpy as np

from activerules.ir.analysis.nodes import Primal
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.generate.assemble import generate
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from tests.ir import test_random_programs as reverse
from tests.ir.harness import Active, Const, Duplicated, compile_text
from tests.ir.plan.planned import plan_of, random_plans
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
ALLOCATIONS = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
define double @f(double %x, i64 %n) {
entry:
  %m = call ptr @malloc(i64 16)
  store double %x, ptr %m
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %k = call ptr @malloc(i64 8)
  %v = load double, ptr %m
  store double %v, ptr %k
  call void @g(ptr %k, ptr %m)
  call void @free(ptr %k)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %r = load double, ptr %m
  call void @free(ptr %m)
  ret double %r
}
define internal void @g(ptr %k, ptr %m) noinline {
  %v = load double, ptr %k
  %w = fmul double %v, %v
  store double %w, ptr %m
  ret void
}
"""


def test_p1_augmented_primal_computes_and_writes_what_the_primal_does():
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


def test_p2_augmented_primal_touches_no_floats_in_shadows():
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


def test_p3_shadows_are_put_on_the_list_of_owned_objects_at_once():
    """Nothing but the check that there is memory comes between the allocation and that call."""
    functions, _, _ = generate(plan_of(ALLOCATIONS, [Active, Const]))
    augmented = next(f for f in functions if f.name.endswith(".augmented"))
    flow = control_flow(augmented)
    calls = [i for i in augmented.instructions() if i.opcode == "call"]
    owning = {i.operands[2]: i for i in calls if i.callee_name == "activerules.tape.own"}
    made = [i for i in calls if i.callee_name in {"malloc", "calloc"}]
    shadows = [i for i in made if i.name not in {"m", "k"}]
    assert owning.keys() == set(made)
    assert len(made) == 2 * len(shadows) == 4
    for shadow in shadows:
        own = owning[shadow]
        before = own.owner.instructions[: own.owner.instructions.index(own)]
        if shadow.owner is not own.owner:
            assert flow.predecessors[own.owner] == [shadow.owner]
            before = [*shadow.owner.instructions, *before]
        assert {i.opcode for i in before[before.index(shadow) + 1 :]} <= {"icmp", "br"}


def test_p4_a_kept_value_is_stored_once_per_iteration_of_its_home_loop():
    """Floats: by one store more than the program has, behind the definition, in no inner loop."""
    stored = 0
    for plan, _ in random_plans():
        functions, _, _ = generate(plan)
        augmented = next(f for f in functions if f.name.endswith(".augmented"))
        flow = control_flow(augmented)
        of_primal = Counter(
            i.operands[0].ref for i in plan.request.function.instructions() if i.opcode == "store"
        )
        for node in plan.cache.kept:
            if not isinstance(node, Primal) or not node.value.type.is_float:
                continue
            ref = node.value.ref
            made = next(i for i in augmented.instructions() if i.name and i.ref == ref)
            stores = [
                i
                for i in augmented.instructions()
                if i.opcode == "store" and i.operands[0].ref == ref
            ]
            assert len(stores) == 1 + of_primal[ref], ref
            assert any(
                flow.dominates(made.owner, i.owner)
                and flow.loop_of(i.owner) is flow.loop_of(made.owner)
                for i in stores
            )
            stored += 1
    assert stored > 20
