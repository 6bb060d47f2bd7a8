"""Samplers called by methods of `numpy.random.Generator` whose draws have no derivative.

Needs       the library of rules, which gives the reasons
Gives       nothing: once it is imported, derivatives of their results are refused
Invariants  D1  they include all of Numba's functions that draw by rejection and have parameters
"""

from __future__ import annotations

from numba.np.random import distributions

from activerules.rules.define import refuse
from activerules.rules.library.random import DRAWN

refuse(
    distributions.random_standard_gamma,
    distributions.random_standard_gamma_f,
    distributions.random_chisquare,
    distributions.random_noncentral_chisquare,
    distributions.random_f,
    distributions.random_noncentral_f,
    distributions.random_beta,
    distributions.random_standard_t,
    distributions.random_wald,
    why=DRAWN,
)
