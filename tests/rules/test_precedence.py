"""Which rule is chosen, for random sets of rules: no rule is compiled.

A rule is known by the reverse that its pair was defined with; calls are all combinations of the
activities and types below.
"""

from itertools import product

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numba import complex128, float32, float64, types

from activerules import errors
from activerules.annotations.activity import Active, Annotation, Const, Duplicated
from activerules.rules.define import augmented_primal, reverse
from activerules.rules.pattern import admits, pattern_of
from activerules.rules.registry import RULES

VECTOR, MATRIX = float64[::1], float64[:, ::1]
ANNOTATIONS = [
    Active,
    Active[float64],
    Active[types.Float],
    Active[float64] | Const[float64],
    Active | Const,
    Annotation,
    Annotation[float64],
    Annotation[types.Float],
    Annotation[np.ndarray],
    Const,
    Const[float64],
    Duplicated,
    Duplicated[VECTOR],
    Duplicated[np.ndarray],
    Duplicated | Const,
    Duplicated[MATRIX] | Active,
]
PASSED = [
    *((kind, ty) for kind in (Active, Const) for ty in (float64, float32, complex128)),
    *((kind, ty) for kind in (Duplicated, Const) for ty in (VECTOR, MATRIX)),
]
CALLS = list(product(PASSED, PASSED))
SIGNATURES = st.tuples(*[st.sampled_from(ANNOTATIONS)] * 2)
SETS = st.lists(SIGNATURES, min_size=2, max_size=4, unique_by=str)


def defined(signatures):
    """A function with these rules; the reverse of each. None if two of the rules tie."""

    def f(x, y):
        return x

    reverses = {}
    for x, y in signatures:

        def aug(config, ret: Active, x: x, y: y): ...

        def rev(config, dret: Active, tape, x: x, y: y): ...

        try:
            augmented_primal(f)(aug)
        except errors.AmbiguousRule:
            return None
        reverses[reverse(f)(rev)] = (x, y)
    return f, reverses


def served(f, reverses, call):
    """The signature that serves a call; None if none does."""
    kinds, types_ = zip(*call, strict=True)
    names = [kind.__name__.lower() for kind in kinds]
    try:
        return reverses[RULES.find(f, (*types_, float64), (*names, "active")).reverse]
    except errors.NoRuleForActivity:
        return None


def admitted(signature, call):
    """For each argument, the alternatives of its annotation that admit what is passed."""
    return [
        [a for a in pattern_of(annotation) if a.kind is kind and admits(a.type, ty)]
        for annotation, (kind, ty) in zip(signature, call, strict=True)
    ]


def is_for_less(signature, other):
    """Whether each argument admits less of `other`'s, and at least one strictly so."""
    mine, theirs = ([pattern_of(a) for a in each] for each in (signature, other))
    within = [
        all(any(b.kind is a.kind and admits(b.type, a.type) for b in wide) for a in narrow)
        for narrow, wide in zip((*mine, *theirs), (*theirs, *mine), strict=True)
    ]
    return all(within[:2]) and not all(within[2:])


@settings(max_examples=60)
@given(SETS)
def test_one_rule_serves_each_call_and_no_other_is_for_less(signatures):
    found = defined(signatures)
    assume(found is not None)
    for call in CALLS:
        fitting = [s for s in signatures if all(admitted(s, call))]
        if fitting:
            chosen = served(*found, call)
            assert chosen in fitting
            assert not any(is_for_less(s, chosen) for s in fitting)


@settings(max_examples=60)
@given(SETS, st.randoms(use_true_random=False))
def test_the_order_of_definitions_does_not_matter(signatures, random):
    """Unless one order is refused: a rule for what two others tie on is to be defined first."""
    shuffled = random.sample(signatures, len(signatures))
    one, other = defined(signatures), defined(shuffled)
    assume(one is not None and other is not None)
    for call in CALLS:
        fitting = [s for s in signatures if all(admitted(s, call))]
        if fitting:
            assert served(*one, call) == served(*other, call)
