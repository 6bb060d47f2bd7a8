"""Assumptions of a plan: the function that tells whether they hold."""

import random

from tests.ir.nests import Nest
from tests.ir.test_nests import SIZES, check, planned


def test_s1_assumptions_are_made_and_checked() -> None:
    """Programs that need one exist among those of test_nests, and sizes that break it."""
    made = [
        seed for seed in range(12) if planned(Nest(random.Random(seed)).text, True)[1].assumptions
    ]
    assert made
    assert check(made[0], True) < len(SIZES)
    assert check(made[0], False) == len(SIZES)
