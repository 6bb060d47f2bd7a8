"""The samplers that methods of `numpy.random.Generator` call, where their draws have no
derivative.

Needs       the library of rules, which says why
Gives       nothing: importing it declares them
Invariants  D1  every function of Numba's that draws by rejection, from parameters, is among them
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
