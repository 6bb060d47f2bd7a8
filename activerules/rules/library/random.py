"""Rules of random numbers: what is drawn is a constant, its location and scale are not.

The draw of the augmented primal is the one and only: the reverse recovers it from the result.
"""

from __future__ import annotations

import numpy as np

from activerules.annotations.activity import Active, Const
from activerules.rules.define import augmented_primal, inactive, reverse
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


@augmented_primal(np.random.normal)
def _normal(config, ret: Active, loc: Active | Const, scale: Active | Const):
    y = np.random.normal(loc.val, scale.val)
    draw = (y - loc.val) / scale.val if scale.val != 0.0 else 0.0
    return AugmentedReturn(primal=y, shadow=None, tape=draw)


@reverse(np.random.normal)
def _normal_reverse(config, dret: Active, tape, loc: Active | Const, scale: Active | Const):
    """With the draw z: y = loc + scale z."""
    return dret.val, dret.val * tape


@augmented_primal(np.random.uniform)
def _uniform(config, ret: Active, low: Active | Const, high: Active | Const):
    y = np.random.uniform(low.val, high.val)
    width = high.val - low.val
    draw = (y - low.val) / width if width != 0.0 else 0.0
    return AugmentedReturn(primal=y, shadow=None, tape=draw)


@reverse(np.random.uniform)
def _uniform_reverse(config, dret: Active, tape, low: Active | Const, high: Active | Const):
    """With the draw u: y = low + (high - low) u."""
    return dret.val * (1.0 - tape), dret.val * tape
