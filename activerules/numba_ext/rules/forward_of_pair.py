"""A forward rule made from a reverse pair, for derivatives that are differentiated again.

Needs       a marked call of a function with a pair and no forward rule, and the pair for it
Gives       `forward_of_pair`: a forward rule that calls both halves. They are ordinary functions:
            differentiating the rule differentiates them, and never the function's body
            `tangents_bypass`: the error where there can be none
Invariants  P1  the tangent of an output number is <x̄, ẋ>, with x̄ the derivatives that the reverse
                returns for the cotangent one (and for a one in the imaginary part), and ẋ the
                tangents before the call; outputs are the result, and arrays that are written
            P2  pairs that need types other than numbers, arrays and tuples of them are refused
            P3  each run of the reverse finds shadows of zeros, and the tape as it was recorded

Cost        one run of the reverse per number in the outputs: J v computed with Jᵀ
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import register_jitable
from numba.np.numpy_support import as_dtype

from activerules.annotations.activity import (
    RETURNED,
    SHADOWED,
    Active,
    Const,
    Duplicated,
    MixedDuplicated,
)
from activerules.annotations.values import make_zero
from activerules.errors import NotYetSupported
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.rules.checks import copied, copy_in_place, own_leaf
from activerules.numba_ext.rules.functions import callable_rule, flags_beside, flags_in_place_of
from activerules.numba_ext.rules.objects import is_copied_memory
from activerules.numba_ext.rules.return_types import rounds
from activerules.numba_ext.rules.tapes import is_trusted
from activerules.numba_ext.target.marked_calls import MarkedCall, plain_type
from activerules.rules.protocol import RuleConfig
from activerules.rules.rule import ForwardRule, Kind, RulePair
from activerules.rules.written import by_name, definition, function_from, over_elements
from activerules.values.kinds import (
    anonymous,
    derivative_type,
    is_number_array,
    items_of,
    leaves_of,
)
from activerules.values.leaf_texts import LeafText, TupleTexts, leaves_at
from activerules.values.overwriting import overwrite

_PLAIN = (types.Number, types.Boolean, types.NoneType)


def forward_of_pair(
    marked: MarkedCall,
    pair: RulePair,
    kinds: Sequence[Kind],
    written: Sequence[bool],
    *,
    looped: bool,
) -> ForwardRule:
    """The forward rule that `pair` makes for a call with these kinds, Const or Duplicated; the last
    of them is that of the result.

    Raises `NotYetSupported` (P2).
    """
    _require_supported(marked, pair, kinds)
    *arguments, result = kinds
    return ForwardRule(
        name=pair.name,
        function=_RuleWriter(marked, pair, tuple(kinds), tuple(written)).function(),
        arguments=tuple(arguments),
        result=result,
        lowering=("as is",) * len(arguments),
        looped=looped,
        location=pair.location,
    )


def _require_supported(marked: MarkedCall, pair: RulePair, kinds: Sequence[Kind]) -> None:
    argtypes = [plain_type(each) for each in (*marked.signature.args, marked.result_type)]
    unfit = [
        name
        for name, ty, kind, of_pair in zip(
            (*marked.argument_names, "the result"),
            argtypes,
            kinds,
            (*pair.arguments, pair.result),
            strict=True,
        )
        if not (kind is of_pair is Const or _has_only_known_leaves(ty))
        or of_pair not in (Const, Active, *SHADOWED)
    ]
    if not unfit:
        return
    raise NotYetSupported(
        f"a second derivative of {pair.name}, which has a reverse pair and no forward rule",
        where=[("the rule", pair.name, pair.location), ("at the call", pair.name, marked.location)],
        why=f"{' and '.join(unfit)}: only numbers, arrays of them and tuples of both have "
        "derivatives in a pair that is differentiated",
        instead=[
            f"write the missing half: @ar.forward({pair.name})",
            f'say that its body is right to differentiate: ar.opt_out({pair.name}, mode="forward")',
            "a pair for a function of the arrays and numbers that the object holds",
        ],
    )


def tangents_bypass(marked: MarkedCall, pair: RulePair) -> NotYetSupported:
    """The error for a pair whose data bypasses the arguments: it sends and receives no tangents."""
    return NotYetSupported(
        f"a second derivative of {pair.name}, which has a reverse pair and no forward rule",
        where=[("the rule", pair.name, pair.location), ("at the call", pair.name, marked.location)],
        why="its rule says `sends` or `receives`: the tangents go that way, too, and not by a pair",
        instead=[f"write the missing half: @ar.forward({pair.name}, sends=…, receives=…)"],
    )


def _has_only_known_leaves(ty: types.Type) -> bool:
    return all(isinstance(leaf, _PLAIN) or is_number_array(leaf) for leaf in leaves_of(ty))


@dataclass(frozen=True)
class _RuleWriter:
    """Writes the rule as source text. Argument k is `a0`, `a1` … as passed to the rule, `b0` … to
    the augmented primal, and `c0` … to the reverse; `s0` … are shadows.

    kinds    of the arguments and the result of the rule
    written  which arguments the function may write into
    """

    marked: MarkedCall
    pair: RulePair
    kinds: tuple[Kind, ...]
    written: tuple[bool, ...]
    texts: TupleTexts = field(default_factory=TupleTexts)

    @property
    def argtypes(self) -> list[types.Type]:
        """The types of the arguments."""
        return [plain_type(each) for each in self.marked.signature.args]

    def function(self) -> Any:
        """The forward rule, made from its source."""
        numbers = range(len(self.argtypes))
        lines = [line for k in numbers for line in self._annotated(k)]
        passed = "".join(f", b{k}" for k in numbers)
        marker = f"_{self.pair.result.__name__}"
        lines += [f"y, shadow, tape = _augmented(_config, {marker}{passed})"]
        lines += [line for leaf in self._results() for line in self._of_result(leaf)]
        lines += [line for leaf in self._outputs() for line in self._of_written(leaf)]
        lines += [f"_overwrite({_tangent(x)}, n_{x.name})" for x in self._outputs()]
        lines += [self._returned()]
        source = definition("forward", ("config", "ret", *(f"a{k}" for k in numbers)), lines)
        return function_from(source, "forward", self._scope(), module=__name__)

    def _scope(self) -> dict[str, Any]:
        config = RuleConfig(
            overwritten=(False,) * len(self.argtypes),
            needs_shadow=self.pair.result in SHADOWED,
            written=self.written,
        )
        flags = flags_in_place_of(self.marked.function)
        return {
            **self.texts.classes,
            "_config": config,
            "_augmented": callable_rule(self.pair.augmented, flags),
            "_reverse": callable_rule(self.pair.reverse, flags_beside(self.marked.function)),
            **by_name(Active, Const, Duplicated, MixedDuplicated, prefix="_"),
            **by_name(copied, copy_in_place, entry, make_zero, overwrite, unit, prefix="_"),
            "_own": own_tape,
            "_along": along_of,
            "_i": imaginary_unit,
        }

    # --- arguments ---

    def _moved(self, k: int) -> list[LeafText]:
        """The leaves of an argument that have tangents."""
        if self.kinds[k] is not Duplicated:
            return []
        return [leaf for leaf in leaves_at(f"a{k}", self.argtypes[k]) if leaf.carries]

    def _outputs(self) -> list[LeafText]:
        """The arrays that the function may write into, of those with tangents."""
        return [
            x for k, may in enumerate(self.written) if may for x in self._moved(k) if x.is_array
        ]

    def _annotated(self, k: int) -> list[str]:
        """An argument as both halves take it, after copying the tangents and values that the call
        changes.

        For arguments in `saves`, the reverse gets the values from before the call.
        """
        kind, ty = self.pair.arguments[k], self.argtypes[k]
        lines = [
            f"t_{x.name} = _copied({_tangent(x)})" for x in self._outputs() if x.root == f"a{k}"
        ]
        if k in self._saved_constants:
            lines += [f"b{k} = _Const(a{k}.val)", f"v{k} = _copied(a{k}.val)"]
            return [*lines, self._restored_constant(k)]
        if kind not in SHADOWED:
            return [*lines, f"b{k} = c{k} = _{kind.__name__}(a{k}.val)"]
        arrays = [x for x in leaves_at(f"a{k}", ty) if x.is_array]
        lines += [f"s_{x.name} = _make_zero({_value(x)})" for x in arrays]
        shadow = self.texts.rebuilt(
            ty, lambda x: f"s_{x.name}" if x.is_array else f"_make_zero({_value(x)})", f"a{k}"
        )
        lines += [f"b{k} = c{k} = _{kind.__name__}(a{k}.val, {shadow})"]
        if self._is_saved(k):
            lines += [f"v_{x.name} = _copied({_value(x)})" for x in arrays]
            saved = self.texts.rebuilt(
                ty, lambda x: f"k_{x.name}" if x.is_array else _value(x), f"a{k}"
            )
            lines += [f"k_{x.name} = _copy_in_place(v_{x.name}, {_value(x)})" for x in arrays]
            lines += [f"c{k} = _{kind.__name__}({saved}, {shadow})"]
        return lines

    def _is_saved(self, k: int) -> bool:
        """Whether the reverse reads an argument that the function may write into."""
        return k in self.pair.saves and self.written[k]

    @property
    def _saved_constants(self) -> list[int]:
        """The constant arguments of which each run of the reverse gets a copy."""
        return [
            k
            for k, ty in enumerate(self.argtypes)
            if self._is_saved(k) and self.pair.arguments[k] is Const
            if is_copied_memory(self.marked, self.marked.argument_names[k], ty, records=False)
        ]

    def _restored_constant(self, k: int) -> str:
        """The line that makes a constant argument of the reverse from its copy."""
        is_array = isinstance(self.argtypes[k], types.Array)
        copy = f"_copy_in_place(v{k}, a{k}.val)" if is_array else f"_copied(v{k})"
        return f"c{k} = _Const({copy})"

    def _shadows(self) -> list[str]:
        """The shadows of all arrays."""
        of_arguments = [
            f"s_{x.name}"
            for k, kind in enumerate(self.pair.arguments)
            if kind in SHADOWED
            for x in leaves_at(f"a{k}", self.argtypes[k])
            if x.is_array
        ]
        return of_arguments + [f"shadow{x.path}" for x in self._leaves_of_result() if x.is_array]

    # --- the result ---

    def _leaves_of_result(self) -> Iterator[LeafText]:
        """The leaves of a result whose shadow is passed to the reverse."""
        if self.pair.result in SHADOWED:
            yield from leaves_at("y", self.marked.result_type)

    def _results(self) -> list[LeafText]:
        """The leaves of the result that have tangents."""
        if self.kinds[-1] is Const:
            return []
        return [leaf for leaf in leaves_at("y", self.marked.result_type) if leaf.carries]

    def _cotangent(self, seeded: LeafText | None, seed: str) -> str:
        """The argument `dret` of the reverse, with cotangent `seed` for the number `seeded`."""

        def number(leaf: LeafText) -> str:
            if not leaf.carries:
                return leaf.text
            return seed if leaf == seeded else f"_make_zero({leaf.text})"

        kind, ty = self.pair.result, self.marked.result_type
        if kind is Const:
            return "_Const(y)"
        if kind is Active:
            return f"_Active({self.texts.rebuilt(ty, number, 'y')})"
        shadow = self.texts.rebuilt(
            ty, lambda x: f"shadow{x.path}" if x.is_array else number(x), "y"
        )
        return f"_{kind.__name__}(y, {shadow})"

    def _of_result(self, leaf: LeafText) -> list[str]:
        """The tangent of one leaf of the result, `d_…`."""
        allocation = f"d_{leaf.name} = _make_zero({leaf.text})"
        if leaf.is_array:
            return [allocation, *self._each_element(leaf, f"shadow{leaf.path}", f"d_{leaf.name}")]
        lines = [allocation]
        for factor, seed in _ones(leaf, f"_unit({leaf.text})", f"_i({leaf.text})"):
            lines += self._run([], self._cotangent(leaf, seed))
            lines += [f"d_{leaf.name} += part{factor}"]
        return lines

    def _returned(self) -> str:
        """The return statement of the rule: the result, and its tangent."""
        ty = self.marked.result_type
        if ty == types.none:
            return "return None"
        if self.kinds[-1] is Const:
            return "return y"
        tangent = self.texts.rebuilt(ty, lambda x: f"d_{x.name}" if x.carries else x.text, "y")
        return f"return y, {tangent}"

    # --- runs of the reverse ---

    def _needs_own_tape(self) -> bool:
        """Whether the reverse may write into a tape that is read again: it may run more than once,
        and what it is given may be an argument.
        """
        results = self._results()
        return (
            not is_trusted(self.pair)
            or bool(self._outputs())
            or len(results) > 1
            or any(x.is_array or isinstance(x.number, types.Complex) for x in results)
        )

    def _of_written(self, leaf: LeafText) -> list[str]:
        """The tangent of an array after the call, `n_…`."""
        allocation = f"n_{leaf.name} = _make_zero({_value(leaf)})"
        return [allocation, *self._each_element(leaf, f"s_{leaf.name}", f"n_{leaf.name}")]

    def _each_element(self, leaf: LeafText, seeded: str, into: str) -> list[str]:
        """The runs for each number of an array; its cotangent is the array `seeded`."""
        *loops, innermost = over_elements("{index}", into, leaf.numba_type.ndim, "").splitlines()
        index = innermost.strip()
        each: list[str] = []
        for factor, seed in _ones(leaf, "1", "1j"):
            each += self._run([f"{seeded}[{index}] = {seed}"], self._cotangent(None, ""))
            each += [f"{into}[{index}] += part{factor}"]
        return [*loops, *(" " * leaf.numba_type.ndim + line for line in each)]

    def _run(self, seeds: Sequence[str], cotangent: str) -> list[str]:
        """One run of the reverse; leaves its contribution to a tangent in `part`."""
        shadows = self._shadows()
        numbers = range(len(self.argtypes))
        own = "".join(f"{shadow}, " for shadow in shadows)
        tape = f"_own(tape, ({own}))" if self._needs_own_tape() else "tape"
        passed = ", ".join([cotangent, tape, *(f"c{k}" for k in numbers)])
        back = [f"r = _reverse(_config, {passed})"]
        saved = [
            f"_overwrite(k_{x.name}, v_{x.name})"
            for k in numbers
            if self._is_saved(k) and self.pair.arguments[k] in SHADOWED
            for x in leaves_at(f"a{k}", self.argtypes[k])
            if x.is_array
        ]
        saved += map(self._restored_constant, self._saved_constants)
        terms = [
            f"_along({self._gradient(k, x)}, {self._before(x)})"
            for k in numbers
            for x in self._moved(k)
        ]
        clear = [f"{shadow}[...] = 0" for shadow in shadows]
        return [*clear, *seeds, *saved, *back, f"part = {' + '.join(terms) or '0.0'}"]

    def _gradient(self, k: int, leaf: LeafText) -> str:
        """The expression of the derivative that the reverse gave for a leaf."""
        if leaf.is_array:
            return f"s_{leaf.name}"
        only = [kind in RETURNED for kind in self.pair.arguments].count(True) == 1
        return f"_entry(r, {k}, {len(self.argtypes)}, {only:d}, a{k}.val){leaf.path}"

    def _before(self, leaf: LeafText) -> str:
        """The tangent of a leaf before the call."""
        return f"t_{leaf.name}" if leaf in self._outputs() else _tangent(leaf)


def _value(leaf: LeafText) -> str:
    return f"{leaf.root}.val{leaf.path}"


def _tangent(leaf: LeafText) -> str:
    return f"{leaf.root}.dval{leaf.path}"


def _ones(leaf: LeafText, one: str, i: str) -> list[tuple[str, str]]:
    """The seeds of a leaf, `one` and, if it is complex, `i`; each after the text of the factor by
    which its contribution to the tangent is multiplied.
    """
    return [("", one), (" * 1j", i)] if isinstance(leaf.number, types.Complex) else [("", one)]


# --- functions that the rule calls ---


@chosen_by_types(prefer_literal=True)
def entry(returned, index, count, only, value):
    """The derivative with respect to argument `index` of `count`, taken from the return value of a
    reverse: a tuple with an entry per argument or, if `only` one has a derivative, perhaps that
    alone. `value` is the argument.
    """
    position = index.literal_value
    entries = isinstance(returned, types.BaseTuple) and len(returned) == count.literal_value
    if only.literal_value:
        wanted = derivative_type(value)
        entries = entries and any(
            rounds(items_of(returned)[position], ty) for ty in (wanted, anonymous(wanted))
        )
    if entries:
        return lambda returned, index, count, only, value: returned[position]
    return lambda returned, index, count, only, value: returned


@chosen_by_types
def along_of(gradient, tangent):
    """<gradient, tangent>, a real number."""
    if isinstance(tangent, types.Array):
        term = "total += one(gradient[{index}], tangent[{index}])"
        loops = over_elements(term, "tangent", tangent.ndim)
        source = f"def along(gradient, tangent):\n    total = 0.0\n{loops}\n    return total"
        return function_from(source, "along", {"one": along_of}, module=__name__)
    if isinstance(tangent, types.Complex):
        return lambda gradient, tangent: gradient.real * tangent.real + gradient.imag * tangent.imag
    return lambda gradient, tangent: gradient.real * tangent


@chosen_by_types
def unit(x):
    """A one of the type of a number."""
    (one,) = np.ones(1, as_dtype(x))
    return lambda x: one


@chosen_by_types
def imaginary_unit(x):
    """An i of the type of a complex number."""
    i = as_dtype(x).type(1j)
    return lambda x: i


@chosen_by_types
def own_tape(tape, shadows):
    """A copy of a tape that a reverse may write into; shadows in it are not copied."""
    texts = TupleTexts()
    copied_leaves = (types.Array, types.List, types.ListType)
    text = texts.rebuilt(
        tape,
        lambda x: f"own({x.text}, shadows)" if isinstance(x.numba_type, copied_leaves) else x.text,
        "tape",
    )
    scope = {**texts.classes, "own": register_jitable(own_leaf)}
    source = f"def own_tape(tape, shadows): return {text}"
    return function_from(source, "own_tape", scope, module=__name__)
