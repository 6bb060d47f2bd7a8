"""Zero shadows for arrays that inactive functions return, if they are mixed with active arrays.

Needs       a marked call of an inactive function that returns numbers in memory
Gives       `pair_of_zeros` and `forward_of_zeros`: the function as a rule whose shadow is zeros
Invariants  callers ask only if the result has a shadow; no other call gets extra code

    x = np.random.randn(n)
    for t in range(steps):
        x = a * x

Here `x` is one of two arrays, and the sweep reaches both through one pointer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from activerules.annotations.activity import Annotation, Const, Duplicated
from activerules.annotations.values import make_zero
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.rules.protocol import AugmentedReturn
from activerules.rules.rule import ForwardRule, RulePair
from activerules.rules.written import by_name, function_from

_SOURCES = {
    "augmented": """def f(config, ret: _Annotation, {annotated}):
    _y = _function({values})
    return _AugmentedReturn(_y, _make_zero(_y), None)""",
    "reverse": """def f(config, dret: _Annotation, tape, {annotated}):
    return ({nothing})""",
    "forward": """def f(config, ret: _Annotation, {annotated}):
    _y = _function({values})
    return _y, _make_zero(_y)""",
}


def pair_of_zeros(marked: MarkedCall) -> RulePair:
    """The rule of an inactive call in reverse mode: a shadow of zeros, and no derivatives."""
    count = len(marked.signature.args)
    return RulePair(
        name=marked.name,
        augmented=_function_of("augmented", marked.function, count),
        reverse=_function_of("reverse", marked.function, count),
        arguments=(Const,) * count,
        result=Duplicated,
        lowering=("as is",) * count,
        result_lowering="as is",
        tape_type=None,
        location=marked.location,
        keeps_shadow=False,
    )


def forward_of_zeros(marked: MarkedCall, width: int) -> ForwardRule:
    """The rule of an inactive call in forward mode: a shadow of zeros."""
    count = len(marked.signature.args)
    return ForwardRule(
        name=marked.name,
        function=_function_of("forward", marked.function, count),
        arguments=(Const,) * count,
        result=Duplicated,
        lowering=("as is",) * count,
        looped=width > 1,
        location=marked.location,
    )


@cache
def _function_of(which: str, function: Any, count: int) -> Callable[..., Any]:
    names = [f"a{k}" for k in range(count)]
    source = _SOURCES[which].format(
        annotated=", ".join(f"{name}: _Annotation" for name in names),
        values=", ".join(f"{name}.val" for name in names),
        nothing="None, " * count,
    )
    scope = {
        **by_name(Annotation, AugmentedReturn, make_zero, prefix="_"),
        "_function": function,
    }
    return function_from(source, "f", scope, module=__name__)
