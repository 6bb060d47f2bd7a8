"""Every program of the library: its gradient at random points against finite differences."""

import numpy as np
import pytest

import activerules as ar
from activerules.testing import rand_tangent
from activerules.testing.gradient import check_gradient, default_activity
from activerules.testing.numeric import shifted
from programs import Program, all_programs, sample


@pytest.mark.parametrize("program", all_programs(), ids=lambda program: program.name)
def test_gradient(program: Program):
    for seed, args in enumerate(program.points()):
        activities = [
            ar.Const if name in program.const else default_activity(x)
            for name, x in zip(program.parameters, args, strict=False)
        ]
        check_gradient(program.function, args, activities, seed=seed)


def choices():
    """Each (program, active argument) of the programs that have several float arguments, one of
    them an array."""
    for program in all_programs():
        args = program.points()[0]
        active = [i for i, x in enumerate(args) if default_activity(x) is not ar.Const]
        if len(active) > 1 and any(isinstance(args[i], np.ndarray) for i in active):
            yield from ((program, i) for i in active)


# The first, second, … argument by turns.
@pytest.mark.parametrize(
    ("program", "active"),
    [pytest.param(program, i, id=f"{program.name}-{i}") for program, i in sample(choices(), 25)],
)
def test_one_active_argument(program: Program, active: int):
    """Derivatives must not depend on which of the other arguments are active."""
    args = program.points()[0]
    only = [default_activity(x) if i == active else ar.Const for i, x in enumerate(args)]
    if not writes_active_into_const(program, args, active):
        check_gradient(program.function, args, only, trials=1)


def writes_active_into_const(program: Program, args: tuple, active: int) -> bool:
    """Whether another argument ends with values that depend on the active one: then it must not be
    Const, and `ActiveMemoryInConst` is the answer."""
    # upwards, as a tolerance must not become negative
    tangent = ones(rand_tangent(args[active], np.random.default_rng(0)))
    runs = []
    for t in (0.0, 1e-3):
        moved = [shifted(x, t, tangent if i == active else None) for i, x in enumerate(args)]
        program.function(*moved)
        runs.append(moved)
    return any(
        not np.array_equal(a, b)
        for i, (one, other) in enumerate(zip(*runs, strict=True))
        if i != active
        for a, b in zip(arrays_in(one), arrays_in(other), strict=True)
    )


def ones(tangent):
    """A tangent of ones in the form of another."""
    if isinstance(tangent, tuple):
        return tuple(map(ones, tangent))
    return None if tangent is None else np.ones_like(tangent)


def arrays_in(x):
    """The arrays in an argument."""
    if isinstance(x, tuple):
        return [array for item in x for array in arrays_in(item)]
    return [x] if isinstance(x, np.ndarray) else []
