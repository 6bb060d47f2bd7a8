"""Every program of the library: its gradient at random points against finite differences."""

import numpy as np
import pytest

import activerules as ar
from activerules.testing.gradient import check_gradient, default_activity
from programs import Program, all_programs


@pytest.mark.parametrize("program", all_programs(), ids=lambda program: program.name)
def test_gradient(program: Program):
    for seed, args in enumerate(program.points()):
        activities = [
            ar.Const if name in program.const else default_activity(x)
            for name, x in zip(program.parameters, args, strict=False)
        ]
        check_gradient(program.function, args, activities, seed=seed)


ARRAY_PROGRAMS = [
    program
    for program in all_programs()
    if any(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in program.points()[0])
]


@pytest.mark.parametrize("program", ARRAY_PROGRAMS[::6], ids=lambda program: program.name)
def test_every_choice_of_one_active_argument(program: Program):
    """Derivatives must not depend on which of the other arguments are active."""
    args = program.points()[0]
    for active, x in enumerate(args):
        activity = default_activity(x)
        if activity is not ar.Const:
            only = [activity if i == active else ar.Const for i in range(len(args))]
            if not writes_active_into_const(program, args, active):
                check_gradient(program.function, args, only, trials=1)


def writes_active_into_const(program: Program, args: tuple, active: int) -> bool:
    """Whether another argument ends with values that depend on the active one: then it must not be
    Const, and `ActiveMemoryInConst` is the answer."""
    runs = []
    for t in (0.0, 1e-3):
        copies = [np.array(x) if isinstance(x, np.ndarray) else x for x in args]
        copies[active] = copies[active] + t
        program.function(*copies)
        runs.append(copies)
    return any(
        isinstance(a, np.ndarray) and not np.array_equal(a, b)
        for i, (a, b) in enumerate(zip(*runs, strict=True))
        if i != active
    )
