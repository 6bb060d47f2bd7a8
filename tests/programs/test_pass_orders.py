"""Gradients do not depend on the order of LLVM's passes: other releases and front ends have others.

What the engine reads of a program goes through a few more passes, drawn at random from those that
come before the target's own. By night, nearly all programs of the library do.
"""

import random

import pytest
from numba import njit

import activerules as ar
from activerules.ir.text import normalise
from activerules.testing.gradient import check_gradient, default_activity
from programs import Program, all_programs, sample

PASSES = """
    aggressive_dce aggressive_instcombine break_critical_edges dead_code_elimination
    dead_store_elimination instruction_combine jump_threading loop_deletion loop_rotate
    loop_unroll loop_unroll_and_jam mem_copy_opt new_gvn reassociate register_to_memory sccp
    simplify_cfg sinking sroa tail_call_elimination
""".split()

# A copy of a function that calls itself would call the original.
PROGRAMS = [p for p in all_programs() if not p.name.startswith("recursion.")]


@pytest.mark.parametrize("program", sample(PROGRAMS, 60), ids=lambda program: program.name)
def test_gradient_after_more_passes(program: Program, monkeypatch: pytest.MonkeyPatch):
    drawn = random.Random(program.name)
    passes = drawn.choices(PASSES, k=drawn.randint(2, 7))
    add_plain_control, managers = normalise._add_plain_control, []

    def add_more(manager):
        managers.append(manager)
        for name in passes:
            getattr(manager, f"add_{name}_pass")()
        add_plain_control(manager)

    monkeypatch.setattr(normalise, "_add_plain_control", add_more)
    options = {k: v for k, v in program.function.targetoptions.items() if k != "nopython"}
    new = njit(**options)(program.function.py_func)  # no derivative of it is known yet
    args = program.points()[0]
    activities = [
        ar.Const if name in program.const else default_activity(x)
        for name, x in zip(program.parameters, args, strict=False)
    ]
    check_gradient(new, args, activities, trials=1)
    assert managers, passes
