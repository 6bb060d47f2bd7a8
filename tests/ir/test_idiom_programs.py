"""Random programs with idioms of other front ends, after LLVM passes in an order of their own:
gradients and tangents agree with exact derivatives, or the program is refused.
"""

from __future__ import annotations

import random

import llvmlite.binding as llvm
import numpy as np
import pytest

from activerules.errors import FloatBitsInInteger, MixedActivity, UnsupportedIR
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.text.normalise import target_machine
from tests.ir import test_forward_random as forward
from tests.ir import test_random_programs as reverse
from tests.ir.harness import compile_text
from tests.ir.random_programs import LENGTH, Generator, lower, make_inputs

PASSES = (
    "sroa instruction_combine simplify_cfg jump_threading new_gvn loop_rotate loop_simplify lcssa "
    "loop_unroll loop_strength_reduce reassociate register_to_memory sccp sinking mem_copy_opt "
    "tail_call_elimination argument_promotion aggressive_instcombine aggressive_dce "
    "dead_store_elimination break_critical_edges lower_switch partial_inliner global_opt ipsccp"
).split()


def after_passes(text: str, rng: random.Random) -> str:
    """The module after some passes: -O0 to -O3, vectorised or not, or any of `PASSES`."""
    module, machine = llvm.parse_assembly(text), target_machine()
    module.data_layout, module.triple = str(machine.target_data), llvm.get_process_triple()
    level = rng.choice([None, 0, 1, 2, 3, 3])
    tuning = llvm.create_pipeline_tuning_options(level or 0)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, tuning)
    if level is None:
        passes = llvm.create_new_module_pass_manager()
        for name in rng.choices(PASSES, k=rng.randrange(3, 12)):
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, builder)
    elif level:
        builder.getModulePassManager().run(module, builder)
    return str(module)


def _programs(number: int, numbers: np.random.Generator):
    """Programs with the numbers they are run on and the gradient they must have."""
    rng = random.Random(50_000 + number)
    for _ in range(reverse.ATTEMPTS):
        program = Generator(rng, idioms=True).program(rng.choice([6, 10, 14]))
        inputs = make_inputs(rng.randrange(1 << 30))
        cotangents = list(numbers.normal(size=(2, LENGTH)))
        expected = reverse.expected_gradient(program, inputs, cotangents, 0.75)
        if expected is not None:
            text = after_passes(lower(program, rng.choice(["", "noalias "]), idioms=True), rng)
            yield program, text, inputs, cotangents, expected


def _derivative(text: str, activities: list[type], **how) -> str | None:
    try:
        return differentiate(text, "f", activities, **how)
    except (UnsupportedIR, FloatBitsInInteger, MixedActivity) as refused:
        if any(why in str(refused) for why in (*reverse.COPIES, "address made from an integer")):
            return None
        raise


@pytest.mark.parametrize("number", range(24))
def test_gradient(number: int) -> None:
    numbers = np.random.default_rng(number)
    for _, text, inputs, cotangents, expected in _programs(number, numbers):
        derivative = _derivative(text, reverse.ACTIVITIES)
        if derivative is not None:
            break
    else:
        pytest.fail("everything is refused")
    compiled = compile_text(derivative, (None, 1, 2)[number % 3])
    computed = reverse.computed_gradient(compiled, inputs, cotangents, 0.75)
    _agree(computed, expected)


@pytest.mark.parametrize("number", range(16))
def test_tangents(number: int) -> None:
    numbers = np.random.default_rng(number)
    width = forward.WIDTHS[number % len(forward.WIDTHS)]
    for program, text, inputs, _, _ in _programs(1000 + number, numbers):
        how = {"mode": "forward", "width": width}
        derivative = _derivative(text, forward.ACTIVITIES, **how)
        directions = numbers.normal(size=(width, 2 * LENGTH + 2))
        expected = forward.exact_tangents(program, inputs, directions)
        if derivative is not None and expected is not None:
            break
    else:
        pytest.fail("everything is refused")
    compiled = compile_text(derivative, (None, 1, 2)[number % 3])
    _agree(forward.computed_tangents(compiled, inputs, directions), expected)


def _agree(computed: np.ndarray, expected: np.ndarray) -> None:
    limit = 1e-8 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(computed, expected, rtol=1e-7, atol=limit)
