"""Rules with the checks of debug mode around them.

Needs       a rule chosen for a marked call, and what is to be checked
Gives       `checked_pair`: a pair of the same protocol whose functions call those of the rule and
            raise `RuleViolation` where it breaks the protocol
Invariants  D1  the checks change nothing that the rule or the program sees, except that the value
                of an argument that was overwritten since is NaN in the reverse
            D2  every message names the rule, where it is defined and where it was called

The derivative is checked along one direction per call, by the identity between what goes in and
what comes out: ȳ·(dy) + Σ x̄ᵢ(before)·(dxᵢ(after)) = Σ x̄ᵢ(after)·(dxᵢ(before)), in which arguments
that are written count on both sides.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba.core import types
from numba.core.registry import CPUDispatcher

from activerules.annotations.activity import BatchDuplicated
from activerules.errors import RuleViolation, TapeError
from activerules.numba_ext import debugchecks as checks
from activerules.numba_ext.calls import MarkedCall, plain_type
from activerules.numba_ext.ruletyping import callable_rule
from activerules.rules.protocol import AugmentedReturn
from activerules.rules.rule import ForwardRule, RulePair
from activerules.rules.written import function_from


def checked_pair(marked: MarkedCall, pair: RulePair, wanted: Any) -> RulePair:
    """The rule with checks around it; `wanted` is a `rules.debug.Checks`."""
    source = _Source(marked, pair, wanted)
    return replace(pair, augmented=source.augmented(), reverse=source.reverse(), tape_type=None)


def checked_forward(marked: MarkedCall, chosen: ForwardRule, wanted: Any) -> ForwardRule:
    """As `checked_pair`; a rule for batches is left as it is."""
    if BatchDuplicated in (*chosen.arguments, chosen.result):
        return chosen
    return replace(chosen, function=_Source(marked, chosen, wanted).forward())


class _Source:
    """Writes the two functions: the parameters have to be written out."""

    def __init__(self, marked: MarkedCall, rule: RulePair | ForwardRule, wanted: Any) -> None:
        if isinstance(getattr(marked.function, "__self__", None), np.random.RandomState):
            # Run beside the rule it would draw another number, and change those that follow.
            wanted = replace(wanted, primal=False, derivatives=False)
        self.marked, self.rule, self.wanted = marked, rule, wanted
        self.numbers = range(len(marked.signature.args))
        self.names = marked.argument_names
        found = [plain_type(each) for each in marked.signature.args]
        self.single = any(getattr(each, "dtype", each) == types.float32 for each in found)
        self.differenced = wanted.derivatives and all(
            map(_is_differenced, (*found, marked.result_type))
        )

    def augmented(self) -> Any:
        assert isinstance(self.rule, RulePair)
        parameters = ", ".join(f"a{i}" for i in self.numbers)
        lines = [f"b{i} = _copy(a{i}.val)" for i in self.numbers]
        lines += [f"r = _rule(config, ret, {parameters})"]
        if self.wanted.primal:
            lines += [f"e{i} = _copy(b{i})" for i in self.numbers]
            lines += [f"e = _function({self._arguments('e')})"]
            lines += [self._agree("r.primal", "e", "the primal differs from that of the function")]
            lines += [
                self._agree(f"a{i}.val", f"e{i}", f"`{name}` is not left as the function does")
                for i, name in enumerate(self.names)
            ]
        what = "the shadow is not zeros in the shape of the primal"
        lines += [f"if not _is_zero_like(r.shadow, r.primal): {self._raise(what)}"]
        before = "".join(f"b{i}, " for i in self.numbers)
        after = "".join(f"_copy(a{i}.val), " for i in self.numbers)
        lines += [
            f"return _AugmentedReturn(r.primal, r.shadow, (r.tape, _flag(), ({before}), ({after})))"
        ]
        head = f"def augmented(config, ret, {parameters}):"
        return self._function("augmented", head, lines, self.rule.augmented)

    def reverse(self) -> Any:
        assert isinstance(self.rule, RulePair)
        parameters = ", ".join(f"a{i}" for i in self.numbers)
        lines = ["inner, used, before, after = tape"]
        lines += [f"if used[0] != 0: raise _TapeError({self._text('its tape was used twice')!r})"]
        lines += ["used[0] = 1"]
        lines += [f"s{i} = _shadow(a{i})" for i in self.numbers]
        lines += ["fine = _all_finite(_cotangent(dret))"]
        lines += [
            f"fine = fine and _all_finite(s{i}) and _all_finite(a{i}.val)" for i in self.numbers
        ]
        if self.differenced:
            lines += self._differences()
        for i in self.numbers:
            saved = i in self.rule.saves
            lines += [f"v{i} = a{i}" if saved else f"v{i} = _poisoned(a{i}, after[{i}])"]
            lines += [f"c{i} = _copy(v{i}.val)"]
        passed = ", ".join(f"v{i}" for i in self.numbers)
        lines += [f"r = _rule(config, dret, inner, {passed})"]
        lines += [
            self._agree(f"v{i}.val", f"c{i}", f"the reverse writes into the value of `{name}`")
            for i, name in enumerate(self.names)
        ]
        for i in self.numbers:
            what = f"the derivative by `{self.names[i]}` is NaN or infinite"
            if i not in self.rule.saves:
                what += ", or made from a value that was overwritten since the function ran"
            lines += [f"g{i} = _entry(r, {i}, a{i})"]
            lines += [f"if fine and not _all_finite(g{i}): {self._raise(what)}"]
        if self.differenced:
            lines += self._compared()
        lines += ["return r"]
        head = f"def reverse(config, dret, tape, {parameters}):"
        return self._function("reverse", head, lines, self.rule.reverse)

    def forward(self) -> Any:
        parameters = ", ".join(f"a{i}" for i in self.numbers)
        lines = [f"b{i} = _copy(a{i}.val)" for i in self.numbers]
        lines += [f"t{i} = _tangent(a{i})" for i in self.numbers]
        step = 2e-2 if self.single else 2e-4
        for k, h in enumerate((step, step / 2)):
            for sign, signed in (("p", h), ("m", -h)) if self.differenced else ():
                each = f"{sign}{k}_"
                lines += [f"{each}{i} = _moved(b{i}, t{i}, {signed})" for i in self.numbers]
                lines += [f"y{sign}{k} = _function({self._arguments(each)})"]
        lines += [f"r = _rule(config, ret, {parameters})"]
        if self.wanted.primal:
            lines += [f"e = _function({self._arguments('b')})"]
            what = "the primal differs from that of the function"
            lines += [self._agree("_part(r, 0)", "e", what)]
            lines += [
                self._agree(f"a{i}.val", f"b{i}", f"`{name}` is not left as the function does")
                for i, name in enumerate(self.names)
            ]
        if self.differenced:
            lines += [self._fits("y", "", "_part(r, 1)", "the tangent")]
            lines += [
                self._fits("", f"_{i}", f"_tangent(a{i})", f"the tangent of `{name}`")
                for i, name in enumerate(self.names)
            ]
        lines += ["return r"]
        head = f"def forward(config, ret, {parameters}):"
        assert isinstance(self.rule, ForwardRule)
        return self._function("forward", head, lines, self.rule.function)

    def _fits(self, before: str, after: str, found: str, what: str) -> str:
        step, tolerance = (2e-2, 1e-2) if self.single else (2e-4, 1e-5)
        values = ", ".join(f"{before}{sign}{k}{after}" for k in (0, 1) for sign in "pm")
        differs = f"{what} differs from finite differences of the function"
        return f"if not _fits({values}, {found}, {step}, {tolerance}): {self._raise(differs)}"

    def _differences(self) -> list[str]:
        """What goes in, along a direction, at two steps."""
        step = 2e-2 if self.single else 2e-4
        lines = [f"d{i} = _direction(a{i}, before[{i}], {i})" for i in self.numbers]
        for k, h in enumerate((step, step / 2)):
            for sign in "pm":
                lines += [
                    f"{sign}{i} = _moved(before[{i}], d{i}, {h if sign == 'p' else -h})"
                    for i in self.numbers
                ]
                lines += [f"y{sign} = _function({self._arguments(sign)})"]
            terms = ["_paired(_cotangent(dret), yp, ym)"]
            terms += [f"_paired(s{i}, p{i}, m{i})" for i in self.numbers]
            lines += [f"in{k} = ({' + '.join(terms)}) / {2 * h}"]
        return lines

    def _compared(self) -> list[str]:
        terms = [f"_along(g{i}, d{i})" for i in self.numbers]
        size = [f"_size(g{i}, d{i})" for i in self.numbers]
        tolerance = 1e-2 if self.single else 1e-5
        what = "the derivative differs from finite differences of the function"
        return [
            f"out = {' + '.join(terms)}",
            f"size = {' + '.join(size)} + abs(in1)",
            f"if fine and not _close(in0, in1, out, {tolerance} * size): {self._raise(what)}",
        ]

    def _arguments(self, letter: str) -> str:
        """The arguments of the function itself, by position as far as its signature goes."""
        if isinstance(self.marked.function, CPUDispatcher):
            return ", ".join(f"{letter}{i}" for i in self.numbers)
        known = _parameters(self.marked.function)
        return ", ".join(
            f"{letter}{i}"
            if name.startswith("argument_") or known[i : i + 1] == [name]
            else f"{name}={letter}{i}"
            for i, name in enumerate(self.names)
        )

    def _agree(self, found: str, expected: str, what: str) -> str:
        tolerance = 1e-3 if self.single else 1e-6
        return f"if not _agrees({found}, {expected}, {tolerance}): {self._raise(what)}"

    def _raise(self, what: str) -> str:
        return f"raise _RuleViolation({self._text(what)!r})"

    def _text(self, what: str) -> str:
        where = f"called at {self.marked.location}" if self.marked.location else "called"
        return f"{what}: the rule of {self.rule.name} at {self.rule.location}, {where}"

    def _function(self, name: str, head: str, lines: Sequence[str], rule: Any) -> Any:
        scope = {
            "_rule": callable_rule(rule),
            "_function": self.marked.function,
            "_RuleViolation": RuleViolation,
            "_TapeError": TapeError,
            "_AugmentedReturn": AugmentedReturn,
            **{f"_{each}": getattr(checks, each) for each in checks.__all__},
        }
        return function_from("\n    ".join((head, *lines)), name, scope, module=__name__)


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _is_differenced(found: Any) -> bool:
    """Whether finite differences know what to do with a type: floats and what holds none."""
    if isinstance(found, types.BaseTuple):
        return not any(map(_holds_numbers, found.types))  # pyright: ignore[reportAttributeAccessIssue]
    return isinstance(getattr(found, "dtype", found), types.Float) or not _holds_numbers(found)


def _holds_numbers(found: Any) -> bool:
    return isinstance(getattr(found, "dtype", found), types.Float | types.Complex)
