"""Checks of derivatives against finite differences, for users, rule authors and our own tests."""

from activerules.testing.gradient import check_gradient
from activerules.testing.numeric import (
    directional_derivative,
    gradient_fd,
    rand_tangent,
    well_conditioned,
)
from activerules.testing.rule import arg, check_rule
from activerules.testing.schemes import backward_fdm, central_fdm, extrapolate_fdm, forward_fdm
from activerules.testing.second import check_grads

__all__ = [
    "arg",
    "backward_fdm",
    "central_fdm",
    "check_gradient",
    "check_grads",
    "check_rule",
    "directional_derivative",
    "extrapolate_fdm",
    "forward_fdm",
    "gradient_fd",
    "rand_tangent",
    "well_conditioned",
]


def __dir__() -> list[str]:
    """The public names only."""
    return sorted(__all__)
