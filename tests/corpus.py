"""The IR of the corpus: captured, and in the engine's normal form."""

from __future__ import annotations

from functools import cache

from activerules.ir.text.normalise import normalise
from activerules.numba_ext.target.capture import Captured, capture
from activerules.rules.library import decompositions, eigen, leastsquares, singular_values
from activerules.rules.treatment import Treatment
from corpus_functions import CORPUS, helper


class Marked:
    """A view of the rule registry in which these functions carry a rule."""

    epoch = 0
    debug = None

    def __init__(self, *functions):
        self.functions = functions

    def treatment(self, function, names, found, *, returned=None):
        return Treatment(kept=True)

    def is_inactive_type(self, found):
        return False

    def carries_rule(self, function):
        return any(function is f for f in self.functions)

    def uses_body(self, function):
        return not self.carries_rule(function)


# NumPy's decompositions are made of these, and these of NumPy's: their rules end that.
PARTS = (
    eigen.eig_parts, decompositions.eigh_parts, decompositions.qr_parts,
    singular_values.svd_parts, leastsquares.condition_number, leastsquares.lstsq_parts,
    leastsquares.pseudo_inverse,
)  # fmt: skip
NO_RULES, HELPER_IS_MARKED = Marked(*PARTS), Marked(helper, *PARTS)


@cache
def captured(name: str, rules: Marked = NO_RULES) -> Captured:
    """A function of the corpus as `capture` gives it."""
    function, argument_types = CORPUS[name]
    return capture(function, argument_types, rules=rules)


@cache
def normalised(name: str) -> str:
    """The same after LLVM's passes."""
    found = captured(name)
    return normalise(found.text, found.symbol)
