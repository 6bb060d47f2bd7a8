"""Rules with the checks of debug mode around them.

Needs       a rule chosen for a marked call, and what is to be checked
Gives       `checked_pair`: a pair of the same protocol whose functions call those of the rule and
            raise `RuleViolation` if it breaks the protocol
Invariants  D1  the checks change nothing that the rule or the program sees, except that in the
                reverse the value of an argument overwritten in between is NaN
            D2  every message names the rule, where it is defined and where it was called

The derivative is checked along one direction per call, by the identity of the two pairings
ȳ·(dy) + Σ x̄ᵢ(before)·(dxᵢ(after)) = Σ x̄ᵢ(after)·(dxᵢ(before)), in which arguments that are written
count on both sides.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba.core import types
from numba.core.registry import CPUDispatcher
from numba.extending import is_jitted

from activerules.annotations.activity import BatchDuplicated, Const
from activerules.errors import RuleViolation
from activerules.ir.derivatives.rulecall import ForwardRuleRequest, RuleRequest
from activerules.numba_ext.rules import debug_checks as checks
from activerules.numba_ext.rules.compiled import CompiledRule, Served
from activerules.numba_ext.rules.forward_rules import CompiledForwardRule
from activerules.numba_ext.rules.functions import callable_rule
from activerules.numba_ext.rules.parts import wholes_of
from activerules.numba_ext.rules.return_types import ResultPath, returns_entries
from activerules.numba_ext.target.dispatchers import with_flags
from activerules.numba_ext.target.marked_calls import MarkedCall, plain_type
from activerules.rules.protocol import AugmentedReturn
from activerules.rules.rule import ForwardRule, RulePair
from activerules.rules.written import definition, function_from
from activerules.values.kinds import is_object, items_of, leaves_of
from activerules.values.layout import layout_of


def checked_pair(
    call: Served[RulePair, RuleRequest], checks: Any, compiled: CompiledRule
) -> RulePair:
    """The rule with checks around it, selected by `checks`, a `rules.debug.Checks`."""
    source = _Source(call.marked, call.rule, checks)
    whole = not returns_entries(compiled.reverse.signature.return_type, compiled.parameters)
    written = [whole.any_of(call.written) for whole in wholes_of(call.marked)]
    reverse = source.reverse(whole, written)
    return replace(call.rule, augmented=source.augmented(), reverse=reverse, tape_type=None)


def checked_forward(
    call: Served[ForwardRule, ForwardRuleRequest], checks: Any, compiled: CompiledForwardRule
) -> ForwardRule:
    """Like `checked_pair`, for a forward rule; every lane of a batch is checked."""
    return replace(call.rule, function=_Source(call.marked, call.rule, checks).forward(compiled))


class _Source:
    """Writes the checked functions as source text, in which parameters are spelled out."""

    def __init__(self, marked: MarkedCall, rule: RulePair | ForwardRule, checks: Any) -> None:
        if isinstance(getattr(marked.function, "__self__", None), np.random.RandomState):
            # A second run would draw another number, and change those that follow.
            checks = replace(checks, primal=False, derivatives=False)
        argtypes = [plain_type(each) for each in marked.signature.args]
        if not marked.only_reads and any(map(is_object, argtypes)):
            # It would write into an object twice, as objects are not copied here.
            checks = replace(checks, primal=False, derivatives=False)
        self.marked, self.rule, self.checks = marked, rule, checks
        self.numbers = range(len(marked.signature.args))
        self.names = marked.argument_names
        self.parameters = [f"a{i}" for i in self.numbers]
        self.objects = {i for i, each in enumerate(argtypes) if is_object(each)}
        leaves = [getattr(leaf, "dtype", leaf) for each in argtypes for leaf in leaves_of(each)]
        self.single = bool({types.float32, types.complex64} & set(leaves))
        self.step, self.tolerance = (2e-2, 1e-2) if self.single else (2e-4, 1e-5)
        self.differenced = checks.derivatives and all(
            map(_is_differenced, (*argtypes, marked.result_type))
        )

    def augmented(self) -> Any:
        assert isinstance(self.rule, RulePair)
        lines = [f"b{i} = _copy(a{i}.val)" for i in self.numbers]
        lines += [f"s{i} = _shadow(a{i})" for i in self.numbers]
        lines += [f"r = _rule({', '.join(('config', 'ret', *self.parameters))})"]
        if not self.rule.keeps_shadow:
            lines += self._no_shadow_kept()
        if self.checks.primal:
            lines += [f"e{i} = _copy(b{i})" for i in self.numbers]
            lines += [f"e = _function({self._arguments('e')})"]
            lines += [self._agree("r.primal", "e", "the primal differs from that of the function")]
            lines += [
                self._agree(f"a{i}.val", f"e{i}", f"`{name}` is not left as the function does")
                for i, name in enumerate(self.names)
            ]
        what = "the shadow is not zeros in the shape of the primal"
        lines += [f"if not _is_zero_like(r.shadow, r.primal): {self._raise(what)}"]
        before = "".join("None, " if i in self.objects else f"b{i}, " for i in self.numbers)
        after = "".join(
            "None, " if i in self.objects else f"_copy(a{i}.val), " for i in self.numbers
        )
        lines += [f"return _AugmentedReturn(r.primal, r.shadow, (r.tape, ({before}), ({after})))"]
        return self._function("augmented", ("config", "ret"), lines, self.rule.augmented)

    def _no_shadow_kept(self) -> list[str]:
        """Checks of the promise `keeps_shadow=False`: that one run serves every shadow."""
        promised = "keeps_shadow=False, and the augmented primal"
        shadows = {f"_its_shadow(a{i})": f"the shadow of `{self.names[i]}`" for i in self.numbers}
        lines = [
            f"if not _agrees({shadow}, s{i}, 0.0): {self._raise(f'{promised} writes into {what}')}"
            for i, (shadow, what) in enumerate(shadows.items())
        ]
        shadows["r.shadow"] = "the shadow that it returns"
        return lines + [
            f"if _share(r.tape, {shadow}): {self._raise(f'{promised} puts {what} on its tape')}"
            for shadow, what in shadows.items()
        ]

    def reverse(self, whole: bool, written: Sequence[bool]) -> Any:
        """The checked reverse.

        whole    whether it returns the derivative of its only Active argument, not a tuple
        written  which arguments the function writes into
        """
        assert isinstance(self.rule, RulePair)
        lines = ["inner, before, after = tape"]
        lines += ["kept, result = _copy(inner), _value(dret)"]
        lines += [f"s{i} = _shadow(a{i})" for i in self.numbers]
        lines += ["fine = _all_finite(_cotangent(dret))"]
        lines += [
            f"fine = fine and _all_finite(s{i}) and _all_finite(a{i}.val)" for i in self.numbers
        ]
        if self.differenced:
            lines += self._differences()
        for i in self.numbers:
            saved = i in self.rule.saves or i in self.objects
            lines += [f"v{i} = a{i}" if saved else f"v{i} = _poisoned(a{i}, after[{i}])"]
            lines += [f"c{i} = _copy(v{i}.val)"]
        passed = ", ".join(f"v{i}" for i in self.numbers)
        lines += [f"r = _rule(config, dret, inner, {passed})"]
        lines += [
            self._agree(f"v{i}.val", f"c{i}", f"the reverse writes into the value of `{name}`")
            for i, name in enumerate(self.names)
            if not (i in self.rule.saves and written[i])  # a copy of its own
        ]
        what = "the reverse writes into its tape, which may be read again"
        lines += [f"if not _agrees(inner, kept, 0.0): {self._raise(what)}"]
        what = "the reverse writes into `dret.val`, which is the program's"
        lines += [f"if not _agrees(_value(dret), result, 0.0): {self._raise(what)}"]
        for i in self.numbers:
            what = f"the derivative with respect to `{self.names[i]}` is NaN or infinite"
            if i not in self.rule.saves:
                what += ", or made from a value that was overwritten since the function ran"
            lines += [f"g{i} = _entry(r, {i}, a{i}, {whole or None})"]
            lines += [f"if fine and not _all_finite(g{i}): {self._raise(what)}"]
        if self.differenced:
            lines += self._compared()
        lines += ["return r"]
        return self._function("reverse", ("config", "dret", "tape"), lines, self.rule.reverse)

    def forward(self, compiled: CompiledForwardRule) -> Any:
        assert isinstance(self.rule, ForwardRule)
        is_batch = BatchDuplicated in (*self.rule.arguments, self.rule.result)
        lanes = range(compiled.request.width if is_batch else 1)
        lines = [f"b{i} = _copy(a{i}.val)" for i in self.numbers]
        for lane in lanes:
            lines += [f"t{lane}_{i} = _tangent(a{i}, {lane})" for i in self.numbers]
            lines += self._moves(lane) if self.differenced else []
        lines += [f"r = _rule({', '.join(('config', 'ret', *self.parameters))})"]
        if self.checks.primal:
            lines += [f"e = _function({self._arguments('b')})"]
            what = "the primal differs from that of the function"
            lines += [self._agree(_at(compiled.primal), "e", what)]
            lines += [
                self._agree(f"a{i}.val", f"b{i}", f"`{name}` is not left as the function does")
                for i, name in enumerate(self.names)
            ]
        for lane in lanes if self.differenced else ():
            tangent = _at(compiled.tangent) + (
                f"[{lane}]"
                if self.rule.result is BatchDuplicated and compiled.tangent is not None
                else ""
            )
            lines += [self._fits(f"y{lane}", "", tangent, "the tangent")]
            lines += [
                self._fits(
                    f"x{lane}", f"_{i}", f"_tangent(a{i}, {lane})", f"the tangent of `{name}`"
                )
                for i, name in enumerate(self.names)
            ]
        lines += ["return r"]
        return self._function("forward", ("config", "ret"), lines, self.rule.function)

    def _moves(self, lane: int) -> list[str]:
        """Calls of the function at two steps, forwards and backwards, along a lane's tangents."""
        lines = []
        for k, h in enumerate((self.step, self.step / 2)):
            for sign, signed in (("p", h), ("m", -h)):
                each = f"x{lane}{sign}{k}_"
                lines += [f"{each}{i} = _moved(b{i}, t{lane}_{i}, {signed})" for i in self.numbers]
                lines += [f"y{lane}{sign}{k} = _function({self._arguments(each)})"]
        return lines

    def _fits(self, before: str, after: str, found: str, what: str) -> str:
        values = ", ".join(f"{before}{sign}{k}{after}" for k in (0, 1) for sign in "pm")
        differs = f"{what} differs from finite differences of the function"
        fits = f"_fits(({values}), {found}, {self.step}, {self.tolerance})"
        return f"if not {fits}: {self._raise(differs)}"

    def _differences(self) -> list[str]:
        """The left side of the identity by finite differences along a direction, at two steps."""
        lines = [f"d{i} = _direction(a{i}, before[{i}], {i})" for i in self.numbers]
        for k, h in enumerate((self.step, self.step / 2)):
            lines += self._moved(h, self.numbers)
            lines += [f"in{k} = {self._quotient(h)}"]
        return lines

    def _moved(self, step: float, along: Sequence[int]) -> list[str]:
        """Calls of the function with arguments moved along their directions, both ways."""
        lines = []
        for sign, h in (("p", step), ("m", -step)):
            directions = {j: f"d{j}" if j in along else None for j in self.numbers}
            lines += [f"{sign}{j} = _moved(before[{j}], {d}, {h})" for j, d in directions.items()]
            lines += [f"y{sign} = _function({self._arguments(sign)})"]
        return lines

    def _quotient(self, step: float) -> str:
        """The difference quotient of the left side of the identity after `_moved`."""
        terms = ["_paired(_cotangent(dret), yp, ym)"]
        terms += [f"_paired(s{j}, p{j}, m{j})" for j in self.numbers]
        return f"({' + '.join(terms)}) / {2 * step}"

    def _compared(self) -> list[str]:
        terms = [f"_along(g{i}, d{i})" for i in self.numbers]
        size = [f"_size(g{i}, d{i})" for i in self.numbers]
        what = "the derivative differs from finite differences of the function"
        # a shared shadow would contain the derivatives with respect to both
        shared = [
            f"_share(_its_shadow(a{i}), _its_shadow(a{j}))" for j in self.numbers for i in range(j)
        ]
        return [
            f"fine = fine and not ({' or '.join(['False', *shared])})",
            f"out = {' + '.join(terms)}",
            f"size = {' + '.join(size)} + abs(in1)",
            f"if fine and not _close(in0, in1, out, {self.tolerance} * size):",
            *(line for i in self.numbers for line in self._of_one(i)),
            f"    {self._raise(what, 'out', 'in1')}",
        ]

    def _of_one(self, i: int) -> list[str]:
        """Check the derivative with respect to one argument: along its direction alone."""
        if self.rule.arguments[i] is Const:
            return []
        step = self.step / 2
        what = f"the derivative with respect to `{self.names[i]}` differs from finite differences"
        lines = [
            *self._moved(step, [i]),
            f"found{i}, wanted{i} = _along(g{i}, d{i}), {self._quotient(step)}",
            f"size = _size(g{i}, d{i}) + abs(wanted{i})",
            f"if abs(found{i} - wanted{i}) > {10 * self.tolerance} * size: "
            + self._raise(f"{what} of the function", f"found{i}", f"wanted{i}"),
        ]
        return [f"    {line}" for line in lines]

    def _arguments(self, letter: str) -> str:
        """The arguments of the function itself, by keyword where positions do not match names."""
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

    def _raise(self, what: str, *numbers: str) -> str:
        """A `raise` of the violation; `numbers`: expressions of the found and expected values."""
        return f"raise _RuleViolation({', '.join([repr(self._text(what)), *numbers])})"

    def _text(self, what: str) -> str:
        where = f"called at {self.marked.location}" if self.marked.location else "called"
        return f"{what}: the rule of {self.rule.name} at {self.rule.location}, {where}"

    def _function(self, name: str, leading: Sequence[str], lines: Sequence[str], rule: Any) -> Any:
        scope = {
            **{f"_{name}": each for name, each in vars(checks).items()},
            "_rule": callable_rule(rule, (), checked=True),
            "_function": _in_bounds(self.marked.function),
            "_RuleViolation": RuleViolation,
            "_AugmentedReturn": AugmentedReturn,
        }
        source = definition(name, (*leading, *self.parameters), lines)
        return function_from(source, name, scope, module=__name__)


def _in_bounds(function: Any) -> Any:
    """The function with bounds checks, which a function of NumPy has where it needs them."""
    return with_flags(function, {"boundscheck": True}) if is_jitted(function) else function


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _at(path: ResultPath) -> str:
    """The expression that reads a path of `r`; None if there is no such entry."""
    return "None" if path is None else "r" + "".join(f"[{index}]" for index in path)


def _is_differenced(ty: Any) -> bool:
    """Whether finite differences support a type: numbers, arrays and tuples of them, lists that can
    be copied, and types without numbers.
    """
    if isinstance(ty, types.List | types.ListType):
        return isinstance(ty.dtype, types.Number)
    if isinstance(ty, types.BaseTuple):
        return all(map(_is_differenced, items_of(ty)))
    if isinstance(getattr(ty, "dtype", ty), types.Float | types.Complex):
        return True
    return not layout_of(ty).is_container and not layout_of(ty).numbers.any
