"""Random numbers: drawn values are constants.

Distributions with parameters have no rules where a draw is a smooth function of them (`normal`,
`exponential`): Numba's own implementation is differentiated, at the draws of the primal, which the
derivative never draws again. Where the parameters also decide whether a candidate is accepted, or
which of two is taken, that derivative is not the one of the distribution: its mean is wrong. Those
are refused, but for the scale of a gamma distribution, which multiplies the accepted draw.

Source    Figurnov, Mohamed, Mnih (2018), Implicit reparameterization gradients
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.rules.define import augmented_primal, forward, inactive, refuse, reverse
from activerules.rules.protocol import AugmentedReturn

inactive(
    np.random.seed,
    np.random.random,
    np.random.random_sample,
    np.random.rand,
    np.random.randn,
    np.random.randint,
    np.random.standard_normal,
    np.random.standard_exponential,
    np.random.standard_cauchy,
)

DRAWN = (
    "its parameters decide which candidate becomes the draw, or the draw jumps with them:\n"
    "the derivative of the draw that was taken leaves that out, and its mean is wrong.\n"
    "Where draws are to be constants: ar.ignore_derivatives(...) of the parameters"
)
refuse(
    np.random.standard_gamma,
    np.random.gamma,
    np.random.chisquare,
    np.random.noncentral_chisquare,
    np.random.f,
    np.random.beta,
    np.random.standard_t,
    np.random.dirichlet,
    np.random.wald,
    np.random.vonmises,
    random.gammavariate,
    random.betavariate,
    random.vonmisesvariate,
    why=DRAWN,
)


def _with_scale(function: Any) -> None:
    """The rules of draws that are multiples of their second parameter."""

    @augmented_primal(function)
    def number(config: Any, ret: Active, shape: Const, scale: Active):
        draw = function(shape.val, scale.val)
        return AugmentedReturn(draw, None, draw / scale.val)

    @reverse(function)
    def number_reverse(config: Any, dret: Active, tape: Any, shape: Const, scale: Active):
        return None, type(scale.val)(tape * dret.val)

    @forward(function)
    def number_forward(config: Any, ret: Duplicated, shape: Const, scale: Duplicated):
        draw = function(shape.val, scale.val)
        return draw, draw / scale.val * scale.dval


def _with_size(function: Any) -> None:
    """The same where a third parameter asks for an array of draws; for one draw if it is None."""

    @augmented_primal(function)
    def number(config: Any, ret: Active, shape: Const, scale: Active, size: Const):
        draw = function(shape.val, scale.val)
        return AugmentedReturn(draw, None, draw / scale.val)

    @reverse(function)
    def number_reverse(
        config: Any, dret: Active, tape: Any, shape: Const, scale: Active, size: Const
    ):
        return None, type(scale.val)(tape * dret.val), None

    @augmented_primal(function)
    def array(config: Any, ret: Duplicated, shape: Const, scale: Active, size: Const):
        draws = function(shape.val, scale.val, size.val)
        return AugmentedReturn(draws, np.zeros_like(draws), draws / scale.val)

    @reverse(function)
    def array_reverse(
        config: Any, dret: Duplicated, tape: Any, shape: Const, scale: Active, size: Const
    ):
        return None, type(scale.val)(np.sum(tape * dret.dval)), None

    @forward(function)
    def any_forward(config: Any, ret: Duplicated, shape: Const, scale: Duplicated, size: Const):
        draws = function(shape.val, scale.val, size.val)
        return draws, draws / scale.val * scale.dval


_with_scale(np.random.gamma)
_with_scale(random.gammavariate)
_with_size(np.random.gamma)
