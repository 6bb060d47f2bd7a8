"""The rule of `stretch`; importing this module defines it."""

from activerules.annotations import Active
from activerules.rules import AugmentedReturn, augmented_primal, reverse
from springs import stretch


@augmented_primal(stretch)
def _(config, ret: Active, force: Active, stiffness: Active):
    x = stretch(force.val, stiffness.val)
    return AugmentedReturn(x, None, x)


@reverse(stretch)
def _(config, dret: Active, x, force: Active, stiffness: Active):
    by_force = dret.val / (stiffness.val * (1.0 + 3.0 * x * x))
    return by_force, -by_force * (x + x**3)
