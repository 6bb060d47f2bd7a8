"""Random numbers: what is drawn is a constant.

Distributions with parameters (`normal`, `gamma` …) have no rules: Numba's own implementation is
differentiated, at the draws of the primal, which the derivative never draws again.
"""

from __future__ import annotations

import numpy as np

from activerules.rules.define import inactive

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
