"""Programs that allocate: after value and gradient, every allocation is freed."""

import pytest

import activerules as ar
from activerules.testing.gradient import default_activity
from programs import all_programs

ALLOCATING = (
    "calls.callee_returns_array_in_loop",
    "dynamics.lorenz_rk4_arrays",
    "factorisations.matrix_exponential_series",
    "learning.hidden_markov_forward",
    "learning.lstm",
    "learning.recurrent_with_ping_pong_buffers",
    "lists.arrays_in_a_list",
    "lists.grown_and_emptied",
    "lists.lists_in_a_list",
    "memory.array_created_in_a_branch",
    "nests.scratch_in_every_iteration",
    "nests.scratch_in_every_iteration_of_a_while",
    "numpy_style.concatenated",
    "numpy_style.row_expression_in_loop",
    "objects.several_objects",
    "recursion.arrays_returned",
    "stencils.heat_with_array_swap",
    "typed_dicts.arrays_and_dictionaries",
    "typed_lists.arrays",
    "typed_lists.lists_in_a_list",
)
PROGRAMS = {program.name: program for program in all_programs()}


@pytest.mark.parametrize("name", ALLOCATING)
def test_nothing_is_leaked(name, unfreed):
    program = PROGRAMS[name]
    args = program.points()[0]
    activities = [default_activity(x) for x in args]

    def gradient():
        annotated = [
            activity(x.copy(), x * 0.0) if activity is ar.Duplicated else activity(x)
            for activity, x in zip(activities, args, strict=True)
        ]
        ar.autodiff(ar.Reverse, program.function, ar.Active, *annotated)

    assert unfreed(gradient) == 0
