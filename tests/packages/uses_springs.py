"""A program that uses springs and activerules, and does not know that springs has rules."""

import sys
import warnings

import numba
from springs import stretch

warnings.simplefilter("error")


@numba.njit
def energy(force):
    return stretch(force, 2.0) ** 2


def main():
    import activerules as ar

    if "announced" in sys.argv:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gradient = ar.grad(energy)
        assert "(entry point 'gone') are missing: ModuleNotFoundError: No module" in str(
            caught[0].message
        )
    else:
        import springs.rules  # noqa: F401

        gradient = ar.grad(energy)
    x = stretch(4.0, 2.0)  # x + x³ = 2, so x = 1
    assert abs(gradient(4.0) - 2.0 * x / (2.0 * (1.0 + 3.0 * x * x))) < 1e-12


main()
