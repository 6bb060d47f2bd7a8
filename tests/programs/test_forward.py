"""Programs in forward mode, against finite differences and against the reverse mode.

One identity joins the modes: for a tangent v of the inputs, with tangents w' of everything the
program leaves behind, <w, w'> = <the gradient of <w, outputs>, v>.
"""

import math
import subprocess
import sys

import numpy as np
import pytest

import activerules as ar
from activerules.testing.gradient import Check, default_activity
from activerules.testing.numeric import copied, directional_derivative, inner, is_differentiable
from programs import all_programs, sample

PROGRAMS = sample(all_programs(), 25)


class ForwardCheck(Check):
    """Both modes at one point."""

    def forward(self, directions: list) -> tuple:
        """The tangent of the value, and of what is in the arguments at the end."""
        copies = tuple(map(copied, self.args))
        tangents = list(map(copied, directions))
        annotated = [
            ar.Const(x) if v is None else ar.Duplicated(x, v)
            for x, v in zip(copies, tangents, strict=True)
        ]
        tangent, value = ar.autodiff(ar.ForwardWithPrimal, self.f, *annotated)
        expected = self.primal(self.args)
        self.same("return value", value, expected.value)
        for i, (got, wanted) in enumerate(zip(copies, expected.args, strict=True)):
            self.same(f"argument {i} after the call", got, wanted)
        return tangent, tangents

    def directions(self) -> list:
        return [
            None if activity is ar.Const else ar.testing.rand_tangent(x, self.rng)
            for x, activity in zip(self.args, self.activities, strict=True)
        ]

    def run_forward(self) -> None:
        directions = self.directions()
        tangent, left = self.forward(directions)
        weights = [c if w else None for c, w in zip(self.starts, self.written(), strict=True)]

        def phi(*args):
            outcome = self.primal(args)
            own = [outcome.value] if is_differentiable(outcome.value) else []
            return math.fsum([*map(float, own), *map(inner, weights, outcome.args)])

        own = [tangent] if tangent is not None else []
        got = math.fsum([*map(float, own), *map(inner, weights, left)])
        eps = float(np.finfo(self.precision()).eps)
        expected, error = directional_derivative(phi, self.args, tuple(directions), eps=eps)
        single = self.precision() == np.float32
        scale = max(abs(expected), 1e-3)
        assert abs(got - expected) <= 10 * error + (2e-4 if single else 1e-9) * scale
        self.against_reverse(got, directions, single)

    def against_reverse(self, got: float, directions: list, single: bool) -> None:
        reverse = self.gradient(self.primal(self.args)).derivatives
        pulled = math.fsum(
            inner(d, v) - (0.0 if w or c is None else inner(c, v))
            for d, v, c, w in zip(reverse, directions, self.starts, self.written(), strict=True)
            if v is not None
        )
        assert got == pytest.approx(pulled, rel=1e-3 if single else 1e-10, abs=1e-9)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_tangent(program):
    args = program.points()[0]
    activities = [
        ar.Const if name in program.const else default_activity(x)
        for name, x in zip(program.parameters, args, strict=False)
    ]
    ForwardCheck(program.function, args, activities, np.random.default_rng(7)).run_forward()


DROPPED_TOGETHER = """
import numpy as np
from numba import njit
import activerules as ar

@njit
def program(x, a, b):
    r = b * 2.0
    held = {0: a, 1: a}
    for _ in held.values():
        for _ in held.values():
            r[:2] *= x
    return r[0]

x, a, b = 0.3, np.array([0.3, 1.3]), np.array([-0.4, 0.3])
found = ar.jvp(program, (x, a, b), (1.0, None, np.ones(2)))
np.testing.assert_allclose(found, (2 * b[0] * x**4, 8 * b[0] * x**3 + 2 * x**4), rtol=1e-13)
"""


def test_a_dictionary_of_constants_whose_references_are_dropped_where_those_of_active_arrays_are():
    """LLVM drops references to the dictionary and to `r` by one call, so both need a shadow; the
    destructor of a shadow with nothing in it would end the process.
    """
    subprocess.run([sys.executable, "-c", DROPPED_TOGETHER], check=True)
