"""The forward rule that a reverse pair makes, for derivatives that are differentiated again.

Needs       a marked call of a function with a pair and no forward rule, and the pair for it
Gives       `forward_of_pair`: a forward rule that calls both halves, which are ordinary functions:
            what differentiates it differentiates them, and never the body
Invariants  P1  the tangent is <x̄, ẋ>, with x̄ the derivatives that the reverse gives for a one in
                each number of the result, and a one in its imaginary part
            P2  what the pair needs more than numbers and arrays for is refused

It runs the reverse once per number of the result: the price of J v from Jᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.annotations.values import make_zero
from activerules.errors import NotYetSupported
from activerules.numba_ext.calls import MarkedCall, plain_type
from activerules.numba_ext.kinds import is_number, is_number_array
from activerules.numba_ext.ruletyping import callable_rule
from activerules.rules.protocol import RuleConfig
from activerules.rules.rule import ForwardRule, Kind, RulePair
from activerules.rules.written import function_from, over_places


def forward_of_pair(
    marked: MarkedCall,
    pair: RulePair,
    kinds: Sequence[Kind],
    written: Sequence[bool],
    *,
    looped: bool,
) -> ForwardRule:
    """The forward rule that `pair` makes for a call with these kinds, Const or Duplicated.

    Raises `NotYetSupported` (P2).
    """
    _require_supported(marked, pair, kinds, written)
    return ForwardRule(
        name=pair.name,
        function=_function_of(marked, pair, kinds),
        arguments=tuple(kinds),
        result=Duplicated,
        lowering=("as is",) * len(kinds),
        looped=looped,
        location=pair.location,
    )


def _require_supported(
    marked: MarkedCall, pair: RulePair, kinds: Sequence[Kind], written: Sequence[bool]
) -> None:
    found = [plain_type(each) for each in marked.signature.args]
    moved = [t for t, kind in zip(found, kinds, strict=True) if kind is Duplicated]
    is_plain = all(is_number(t) or is_number_array(t) for t in (*moved, marked.result_type)) and {
        *pair.arguments,
        pair.result,
    } <= {Const, Active, Duplicated}
    writes = any(w and kind is Duplicated for w, kind in zip(written, kinds, strict=True))
    if is_plain and not writes:
        return
    why = (
        "it writes into an argument with a derivative"
        if writes
        else "only numbers, and arrays of them, are arguments and results of a pair there"
    )
    raise NotYetSupported(
        f"a second derivative of {pair.name}, which has a reverse pair and no forward rule",
        where=[("the rule", pair.name, pair.location), ("at the call", pair.name, marked.location)],
        why=why,
        instead=[
            f"write the missing half: @ar.forward({pair.name})",
            f'say that its body is right to differentiate: ar.opt_out({pair.name}, mode="forward")',
        ],
    )


def _function_of(marked: MarkedCall, pair: RulePair, kinds: Sequence[Kind]) -> Any:
    parameters = "".join(f", a{i}" for i in range(len(kinds)))
    passed = "".join(f", b{i}" for i in range(len(kinds)))
    shadowed = [i for i, kind in enumerate(pair.arguments) if kind is Duplicated]
    along = [
        f"_along({f's{i}' if i in shadowed else f'_entry(r, {i})'}, a{i}.dval)"
        for i, kind in enumerate(kinds)
        if kind is Duplicated
    ]
    clear = [f"s{i}.fill(0)" for i in shadowed]

    def run(seed: str, name: str) -> list[str]:
        """One run of the reverse, and the tangent of one number of the result."""
        back = f"r = _reverse(_config, {seed}, tape{passed})"
        return [*clear, back, f"{name} = {' + '.join(along)}"]

    lines = [line for i, kind in enumerate(pair.arguments) for line in _annotated(i, kind)]
    lines += [f"y, shadow, tape = _augmented(_config, _{pair.result.__name__}{passed})"]
    found = marked.result_type
    if is_number(found):
        is_complex = isinstance(found, types.Complex)
        lines += run("_Active(_unit(y))", "tangent")
        lines += run("_Active(_unit(y) * 1j)", "i") if is_complex else []
        lines += ["tangent = tangent + 1j * i"] if is_complex else []
    else:
        lines += ["tangent = _make_zero(y)", *_each_place(found, run)]
    lines += ["return y, tangent"]
    scope: dict[str, Any] = {
        "_config": RuleConfig(
            overwritten=(False,) * len(kinds), needs_shadow=pair.result is Duplicated
        ),
        "_augmented": callable_rule(pair.augmented),
        "_reverse": callable_rule(pair.reverse),
        "_Active": Active,
        "_Const": Const,
        "_Duplicated": Duplicated,
        "_make_zero": make_zero,
        "_entry": entry,
        "_along": along_of,
        "_unit": unit,
    }
    head = f"def forward(config, ret{parameters}):"
    return function_from("\n    ".join((head, *lines)), "forward", scope, module=__name__)


def _annotated(i: int, kind: Kind) -> list[str]:
    """An argument as the pair takes it."""
    if kind is not Duplicated:
        return [f"b{i} = _{kind.__name__}(a{i}.val)"]
    return [f"s{i} = _make_zero(a{i}.val)", f"b{i} = _Duplicated(a{i}.val, s{i})"]


def _each_place(found: Any, run: Callable[[str, str], list[str]]) -> list[str]:
    """The runs for each number of a returned array."""
    *loops, innermost = over_places("{place}", "y", found.ndim, "").splitlines()
    place = innermost.strip()
    each: list[str] = []
    for one in ("1", "1j") if isinstance(found.dtype, types.Complex) else ("1",):
        each += ["shadow.fill(0)", f"shadow[{place}] = {one}"]
        each += run("_Duplicated(y, shadow)", "part")
        each += [f"tangent[{place}] += part * {one}"]
    return [*loops, *(" " * found.ndim + line for line in each)]


# --- what the rule calls ---


def entry(returned: Any, index: int) -> Any:
    """The derivative by one argument, of what a reverse returned."""
    raise NotImplementedError("this function only has a compiled form")


def along_of(gradient: Any, tangent: Any) -> Any:
    """<gradient, tangent>, a real number."""
    raise NotImplementedError("this function only has a compiled form")


def unit(x: Any) -> Any:
    """A one of the type of a number."""
    raise NotImplementedError("this function only has a compiled form")


@overload(entry)
def _entry(returned, index):
    if isinstance(returned, types.BaseTuple):
        return lambda returned, index: returned[index]
    return lambda returned, index: returned


@overload(along_of)
def _along(gradient, tangent):
    if isinstance(tangent, types.Array):
        term = "total += one(gradient[{place}], tangent[{place}])"
        loops = over_places(term, "tangent", tangent.ndim)
        source = f"def along(gradient, tangent):\n    total = 0.0\n{loops}\n    return total"
        return function_from(source, "along", {"one": along_of}, module=__name__)
    if isinstance(tangent, types.Complex):
        return lambda gradient, tangent: gradient.real * tangent.real + gradient.imag * tangent.imag
    return lambda gradient, tangent: gradient.real * tangent


@overload(unit)
def _unit(x):
    (one,) = np.ones(1, as_dtype(x))
    return lambda x: one
