"""Gradients inside code that is itself differentiated: a gradient as a function with rules.

The nested gradient of a function f is a compiled function that does what `autodiff(Reverse, f, …)`
does, on flat arguments: `gradient(x…, d…) -> (ā…, r)`. Here x are the leaves of f's arguments, d
the shadows of those that have one, ā the derivatives that are returned, and r the result of f.
With F: (x, a) -> (x', r) the function and what it writes, ȳ the contents of the shadows before,

    (x̄, ā) = F'(x, a)ᵀ (ȳ, 1)

and D(x, a; v, w) = F'(x, a)(v, w), computed by forward mode, which is code without a tape:

    reverse, cotangents (x'*, x̄*, ā*, r*):  gradients with respect to x, a and ȳ of
        <x'*, x'> + r* r + <(ȳ, 1), D(x, a; x̄*, ā*)>    one reverse sweep over D, seeded (ȳ, 1);
                                                         that with respect to ȳ is what D makes
                                                         of x̄*
    forward, tangents (ẋ, ȧ, ȳ'):  the gradient with respect to (x, a) of
        <(ȳ, 1), D(x, a; ẋ, ȧ)> + <ȳ', x'>               one reverse sweep over D, in which the
                                                         gradient with respect to (ẋ, ȧ) is
                                                         (x̄, ā) itself

Source    Griewank and Walther (2008), sections 3.2 and 5.4; docs/decisions/0008
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit, types

from activerules.annotations.activity import Active, Const, Duplicated, MixedDuplicated
from activerules.annotations.signature import Forward, ForwardWithPrimal, Mode
from activerules.annotations.values import make_zero
from activerules.api.autodiff import autodiff
from activerules.api.same_draws import exchange_states
from activerules.errors import NotYetSupported
from activerules.nested.lists import call_by_arrays, has_number_lists
from activerules.nested.read_calls import ReadCall, names_of, values_of
from activerules.numba_ext.calls.emitter import BY_SHADOW
from activerules.numba_ext.calls.forward_forms import compiled_forward
from activerules.numba_ext.calls.refused_kinds import refuse_generators
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.made_once import COMPILED, NO_C_WRAPPER, in_place_of
from activerules.numba_ext.codegen.random_states import random_states
from activerules.numba_ext.codegen.types import as_strict
from activerules.numba_ext.replaced.in_steps import passing
from activerules.numba_ext.rules.checks import apart, copy_in_place
from activerules.numba_ext.target.derivative import CompiledDerivative
from activerules.rules.define import define_on
from activerules.rules.protocol import AugmentedReturn, active
from activerules.rules.registry import RULES
from activerules.rules.written import by_name, definition, function_from, tuple_of
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import is_number, is_number_array
from activerules.values.layout import Items, Node, layout_of
from activerules.values.leaf_texts import TupleTexts, leaves_at

_OVERLAP = (
    "arguments of a gradient inside a differentiated function share memory that the function writes"
)


@dataclass(frozen=True)
class ArgumentLeaf:
    """One leaf of an argument.

    role     "array": it has a shadow; "number": its derivative is returned; "plain": neither
    path     the subscripts that lead to it: `[0][1]`
    written  whether the function writes into the argument
    """

    number: int
    argument: int
    path: str
    numba_type: Any
    role: str
    written: bool

    @property
    def name(self) -> str:
        """The name of the parameter for the primal."""
        return f"x{self.number}"

    @property
    def shadow(self) -> str:
        """The name of the parameter for the shadow, or for its replacement."""
        return f"d{self.number}"

    @property
    def tangent(self) -> str:
        """The name of the parameter for the tangent."""
        return f"t{self.number}"

    @property
    def may_vary(self) -> bool:
        """Whether it can have a tangent in forward mode."""
        return self.is_active_type and not _has_collection(layout_of(self.numba_type))

    @property
    def is_active_type(self) -> bool:
        """Whether it has a derivative."""
        return is_number(self.numba_type) or layout_of(self.numba_type).has_shadow


@dataclass(frozen=True)
class NestedGradientSpec:
    """A function and how it is differentiated.

    arguments      with their activities
    seeded         whether the return is Active
    with_primal    whether the result of the function, a float, is asked for
    options        of the mode
    """

    dispatcher: Any
    arguments: tuple[ArgumentSpec, ...]
    seeded: bool
    with_primal: bool
    options: frozenset[str]

    @property
    def mode(self) -> Mode:
        """Reverse mode with these options, without the primal."""
        return Mode("reverse", options=self.options)


@dataclass
class _GradientWriter:
    """Writes the functions of one nested gradient.

    draws   whether the function draws random numbers: the reverse, which runs it again, then begins
            at the states that the augmented primal kept
    """

    spec: NestedGradientSpec
    leaves: list[ArgumentLeaf] = field(default_factory=list)
    draws: bool = False
    texts: TupleTexts = field(default_factory=TupleTexts)

    def __post_init__(self) -> None:
        refuse_generators(a.numba_type for a in self.spec.arguments)
        tangent = _tangent_of(self.spec)
        written, self.draws = tangent.written, tangent.draws
        for k, argument in enumerate(self.spec.arguments):
            for leaf in leaves_at(f"x{k}", argument.numba_type):
                role = _role(argument, leaf.numba_type)
                self.leaves.append(
                    ArgumentLeaf(len(self.leaves), k, leaf.path, leaf.numba_type, role, written[k])
                )

    def of_role(self, role: str) -> list[ArgumentLeaf]:
        """The leaves with a role, in order."""
        return [leaf for leaf in self.leaves if leaf.role == role]

    def rebuilt(self, k: int, text: Callable[[ArgumentLeaf], str]) -> str:
        """Argument `k` with `text` for each of its leaves."""
        leaves = (leaf for leaf in self.leaves if leaf.argument == k)
        return self.texts.unflattened(self.spec.arguments[k].numba_type, leaves, text)

    # --- functions ---

    def gradient(self) -> Any:
        """`gradient(x…, d…) -> (ā…, r)`, or None if it returns nothing."""
        spec = self.spec
        kinds = {"const": "", "active": "_Active", "duplicated": "_Duplicated"}
        kinds["mixed"] = "_MixedDuplicated"
        args = []
        for k, argument in enumerate(spec.arguments):
            primal = self.rebuilt(k, lambda leaf: leaf.name)
            shadow = self.rebuilt(k, lambda x: x.shadow if x.role == "array" else x.name)
            fields = f"{primal}, {shadow}" if argument.activity in BY_SHADOW else primal
            args.append(f"{kinds[argument.activity]}({fields})")
        names = [leaf.name for leaf in self.leaves]
        names += [leaf.shadow for leaf in self.of_role("array")]
        marker = "_Active" if spec.seeded else "_Const"
        call = f"_autodiff(_mode, _function, {', '.join([marker, *args])})"
        returned = [f"_bars[{x.argument}]{x.path}" for x in self.of_role("number")]
        lines = [f"_bars = {call}"]
        if spec.with_primal:
            lines = [f"_bars, _primal = {call}"]
            returned.append("_primal")
        mode = spec.mode.with_primal() if spec.with_primal else spec.mode
        return self._function("gradient", names, [*lines, _returned(returned)], _mode=mode)

    def along(self, varied: Sequence[ArgumentLeaf], extra: str) -> Any:
        """`along(x…, t…, [extra])`: the derivative of f along tangents of the leaves `varied`.

        extra "weight": returns ṙ + weight r; "value": stores (r, ṙ) there; "": returns ṙ.
        """
        names = [leaf.name for leaf in self.leaves] + [leaf.tangent for leaf in varied]
        names += [extra] if extra else []
        args = []
        for k, _ in enumerate(self.spec.arguments):
            primal = self.rebuilt(k, lambda leaf: leaf.name)
            moves = any(leaf.argument == k for leaf in varied)
            tangent = self.rebuilt(k, lambda x: x.tangent if x in varied else x.name)
            args.append(f"_Duplicated({primal}, {tangent})" if moves else primal)
        marker = "_Duplicated" if self.spec.seeded else "_Const"
        results = "_dot, _primal" if extra else "_dot"
        call = f"{results} = _autodiff(_mode, _function, {', '.join([marker, *args])})"
        dot = "_dot" if self.spec.seeded else "0.0"
        result = {
            "weight": [f"return weight * _primal{' + _dot' if self.spec.seeded else ''}"],
            "value": ["value[0] = _primal", f"value[1] = {dot}"],
            "": ["return _dot" if self.spec.seeded else "return None"],
        }[extra]
        mode = ForwardWithPrimal if extra else Forward
        return self._function("along", names, [call, *result], _mode=mode)

    def _function(self, name: str, names: Sequence[str], lines: Sequence[str], **more: Any) -> Any:
        plain = self._source_function(name, names, lines, _function=self.spec.dispatcher, **more)
        return njit(**NO_C_WRAPPER)(plain)

    def _source_function(
        self, name: str, names: Sequence[str], lines: Sequence[str], **more: Any
    ) -> Any:
        scope = {**_SCOPE, **self.texts.classes, **more}
        function = function_from(definition(name, names, lines), name, scope, module=__name__)
        function.__name__ = f"{name}_{self.spec.dispatcher.py_func.__name__}"
        return function

    # --- rules ---

    def rules(self, gradient: Any) -> dict[Any, Any]:
        """The rules of the gradient: functions by the decorator that defines them."""
        return {
            "augmented_primal": self._augmented(gradient),
            "reverse": self._reverse(),
            "forward": self._forward(),
        }

    def _names(self, *leading: str) -> list[str]:
        shadows = [leaf.shadow for leaf in self.of_role("array")]
        return [*leading, *(leaf.name for leaf in self.leaves), *shadows]

    def _augmented(self, gradient: Any) -> Any:
        arrays = [leaf for leaf in self.leaves if isinstance(leaf.numba_type, types.Array)]
        lines = [
            f"_apart({left.name}.val, {right.name}.val)"
            for k, left in enumerate(arrays)
            for right in arrays[k + 1 :]
            if left.written or right.written
        ]
        values = ", ".join(f"{name}.val" for name in self._names())
        states = "_random_states()" if self.draws else "None"
        lines += [
            f"_states = {states}",
            f"return _AugmentedReturn(_passing(_gradient, {values}), None, _states)",
        ]
        return self._source_function(
            "rule", self._names("_config", "_ret"), lines, _gradient=gradient
        )

    def _reverse(self) -> Any:
        spec = self.spec
        arrays, numbers = self.of_role("array"), self.of_role("number")
        lines = []
        if numbers or spec.with_primal:
            lines.append("_bars = _dret.val if _active(_dret) else _make_zero(_dret.val)")
        arrays_given = [leaf for leaf in self.leaves if isinstance(leaf.numba_type, types.Array)]
        # two of them may be the same array, of which the tape holds two copies
        alone = [leaf for leaf in arrays_given if not leaf.written and len(arrays_given) > 1]
        lines += [f"_own{leaf.number} = _with_own_shadow({leaf.name})" for leaf in alone]
        args = []
        for leaf in self.leaves:
            if leaf in alone:
                args.append(f"_own{leaf.number}")
            elif leaf in arrays_given and (leaf.written or leaf.numba_type.layout == "A"):
                args.append(f"_with_copy({leaf.name})")
            else:
                args.append(leaf.name)
        for leaf in [leaf for leaf in self.leaves if leaf.role != "plain"]:
            if leaf.role == "number":
                args.append(f"_Const(_bars[{numbers.index(leaf)}])")
                continue
            t, d = leaf.tangent, leaf.shadow
            lines.append(f"{t} = {d}.dval if _active({d}) else _make_zero({d}.val)")
            # the shadow of a tangent that is not written has no influence
            args.append(
                f"_Duplicated({t}, _copy_like({d}.val, {t}))" if leaf.written else f"_Const({t})"
            )
        extra = ""
        if spec.with_primal:
            extra = "weight"
            args.append("_Const(_bars[-1])")
        varied = [leaf for leaf in self.leaves if leaf.role != "plain"]
        marker = "_Active" if extra or spec.seeded else "_Const"
        called = _derivatives(marker, *args)
        exchanged = ["_states = _exchange_states(_tape)", called, "_exchange_states(_states)"]
        lines += exchanged if self.draws else [called]
        lines += [f"_add_own_shadow({leaf.name}, _own{leaf.number})" for leaf in alone]
        entries = [f"_derivatives[{leaf.number}]" for leaf in self.leaves]
        lines.append(_returned([*entries, *("None" for _ in arrays)]))
        names = self._names("_config", "_dret", "_tape")
        return self._source_function(
            "rule", names, lines, _along=self.along(varied, extra), _mode=spec.mode
        )

    def _forward(self) -> Any:
        spec = self.spec
        numbers = self.of_role("number")
        varied = [leaf for leaf in self.leaves if leaf.may_vary]
        lines, args, tangents = [], [], []
        for leaf in self.leaves:
            x, t, d = leaf.name, leaf.tangent, leaf.shadow
            if leaf.is_active_type and not leaf.may_vary:
                lines.append(f"_require_constant({x})")
            if leaf.may_vary:
                lines.append(f"{t} = {x}.dval if _active({x}) else _make_zero({x}.val)")
            if leaf.role == "array":
                lines.append(f"_d{d} = {d}.dval if _active({d}) else _make_zero({d}.val)")
                args.append(f"_Duplicated({x}.val, _d{d})")
                tangents.append(f"_Duplicated({t}, {d}.val)")
            elif leaf.role == "number":
                args.append(f"_Active({x}.val)")
                tangents.append(f"_Active({t})")
            else:
                args.append(f"_Const({x}.val)")
                tangents += [f"_Const({t})"] * leaf.may_vary
        args += tangents
        if spec.with_primal:
            lines += ["_value, _seed = _np.zeros(2), _np.zeros(2)", f"_seed[1] = {spec.seeded:d}"]
            args.append("_Duplicated(_value, _seed)")
        marker = "_Active" if spec.seeded and not spec.with_primal else "_Const"
        lines.append(_derivatives(marker, *args))
        value = ["_value[0]"] if spec.with_primal else [], ["_value[1]"] if spec.with_primal else []
        first = len(self.leaves)
        primal = [f"_derivatives[{first + varied.index(x)}]" for x in numbers] + value[0]
        tangent = [f"_derivatives[{x.number}]" for x in numbers] + value[1]
        if primal:
            pair = tuple_of(primal), tuple_of(tangent)
            lines.append(f"return ({pair[0]}, {pair[1]}) if _config.needs_shadow else {pair[0]}")
        # not for batches: it takes one tangent per argument, and runs once per lane
        names = ["_config", "_ret", *(f"{name}: _Single" for name in self._names())]
        along = self.along(varied, "value" if spec.with_primal else "")
        return self._source_function("rule", names, lines, _along=along, _mode=spec.mode, _np=np)


def _has_collection(node: Node) -> bool:
    return isinstance(node, Items) or any(_has_collection(child) for _, child in node.children)


def _derivatives(*arguments: str) -> str:
    """The line of a rule that differentiates `_along`."""
    return f"_derivatives = _autodiff(_as_strict(_mode, _config), _along, {', '.join(arguments)})"


def _returned(items: Sequence[str]) -> str:
    return f"return {tuple_of(items)}" if items else "return None"


def _role(argument: ArgumentSpec, ty: Any) -> str:
    if is_number(ty) and argument.activity in ("active", "mixed"):
        return "number"
    if is_number_array(ty) and argument.activity in BY_SHADOW:
        return "array"
    if argument.activity in BY_SHADOW and layout_of(ty).has_shadow:
        raise NotYetSupported(
            f"a gradient with respect to {argument}, inside a function that is differentiated",
            why="only floats, arrays and tuples of them have second derivatives there",
            instead=["the arrays of it as arguments of their own"],
        )
    return "plain"


def _tangent_of(spec: NestedGradientSpec) -> CompiledDerivative:
    """The forward derivative along all arguments that vary."""
    moved = [
        ArgumentSpec(a.name, a.numba_type, "const" if a.activity == "const" else "duplicated")
        for a in spec.arguments
    ]
    return compiled_forward(spec.dispatcher, moved, spec.seeded, 1, again=True)


def gradient_of(spec: NestedGradientSpec) -> tuple[Any, _GradientWriter]:
    """The compiled nested gradient with its rules, and its writer."""

    def make() -> tuple[Any, _GradientWriter]:
        writer = _GradientWriter(spec)
        gradient = writer.gradient()
        for which, written in writer.rules(gradient).items():
            saved = _saved_for_reverse(writer) if which == "reverse" else ()
            # new functions: no call of them can have been compiled before
            RULES.attach(gradient, which, *define_on(gradient, which, written, saved))
        return gradient, writer

    key = ("nested gradient", spec.arguments, spec.seeded, spec.with_primal, spec.options)
    return COMPILED.get(spec.dispatcher, key, make)


def _saved_for_reverse(writer: _GradientWriter) -> tuple[str, ...]:
    """What the reverse reads: the arguments, and the shadows that are read before being updated."""
    written = (leaf.shadow for leaf in writer.of_role("array") if leaf.written)
    return (*(leaf.name for leaf in writer.leaves), *written)


# --- the calls in the differentiated function ---


def call_of(nested: ReadCall) -> Any:
    """The compiled function that replaces a call, with annotated or plain arguments."""
    call = nested.call
    spec = NestedGradientSpec(
        call.dispatcher, nested.arguments, nested.seeded, nested.with_primal, call.mode.options
    )
    key = ("nested", call)
    if has_number_lists(nested):
        return COMPILED.get(
            spec.dispatcher, key, lambda: call_by_arrays(nested, _tangent_of(spec).written)
        )
    make = _gradient_call if call.gradient else _annotated_call
    return COMPILED.get(spec.dispatcher, key, lambda: make(nested, *gradient_of(spec)))


def _annotated_call(nested: ReadCall, gradient: Any, writer: _GradientWriter) -> Any:
    """The function that replaces `autodiff(mode, f, …)` by a call of a nested gradient."""
    values = values_of(nested.call.argtypes)
    arguments = [values[x.argument] + x.path for x in writer.leaves]
    arguments += [f"a{x.argument}.dval{x.path}" for x in writer.of_role("array")]
    numbers = writer.of_role("number")
    entries = [
        writer.rebuilt(k, lambda x: f"derivatives[{numbers.index(x)}]" if x in numbers else "None")
        if argument.activity in ("active", "mixed")
        else "None"
        for k, argument in enumerate(nested.arguments)
    ]
    lines = [f"derivatives = gradient({', '.join(arguments)})"]
    result = tuple_of(entries)
    lines.append(
        f"return ({result}, derivatives[-1])" if nested.with_primal else f"return {result}"
    )
    return _compile_call(writer, nested, lines, gradient=gradient)


def _gradient_call(nested: ReadCall, gradient: Any, writer: _GradientWriter) -> Any:
    """The function that replaces a call of what `grad` returned; it makes the shadows."""
    spec: Any = nested.call.gradient
    arrays, numbers = writer.of_role("array"), writer.of_role("number")
    lines = [f"{x.shadow} = make_zero(a{x.argument}{x.path})" for x in arrays]
    arguments = [f"a{x.argument}{x.path}" for x in writer.leaves] + [x.shadow for x in arrays]
    lines.append(f"derivatives = gradient({', '.join(arguments)})")

    def entry(leaf: ArgumentLeaf) -> str:
        if leaf in numbers:
            return f"derivatives[{numbers.index(leaf)}]"
        return leaf.shadow if leaf in arrays else "None"

    entries = [writer.rebuilt(k, entry) for k in spec.argnums]
    result = entries[0] if spec.single else tuple_of(entries)
    lines.append(f"return (derivatives[-1], {result})" if spec.with_value else f"return {result}")
    return _compile_call(writer, nested, lines, gradient=gradient, make_zero=make_zero)


def _compile_call(
    writer: _GradientWriter, nested: ReadCall, lines: Sequence[str], **more: Any
) -> Any:
    scope, names = {**writer.texts.classes, **more}, names_of(nested.call.argtypes)
    return in_place_of(writer.spec.dispatcher, "call", names, lines, scope)


# --- what the rules call ---


@chosen_by_types
def _require_constant(x):
    """Raise `NotYetSupported` for an annotated list or dictionary, or an object with one, that is
    not Const.
    """
    if x.kind is not Const:
        raise NotYetSupported(
            "a gradient that takes a list or dictionary as a constant, inside a function that is "
            "differentiated with respect to that list or dictionary in forward mode",
            why="its items have no tangents there",
            instead=["reverse mode", "the arrays in it as arguments of their own"],
        )
    return lambda x: None


@chosen_by_types
def _with_copy(x):
    """An annotated array around a copy of it, with the strides of its shadow."""
    if x.kind is Const:
        return lambda x: Const(copy_in_place(x.val, x.val))
    return lambda x: Duplicated(copy_in_place(x.val, x.dval), x.dval)


@chosen_by_types
def _with_own_shadow(x):
    """An annotated array with a new shadow of zeros, or itself if it is Const."""
    if x.kind is Const:
        return lambda x: Const(x.val)
    return lambda x: Duplicated(x.val, make_zero(x.val))


@chosen_by_types
def _add_own_shadow(x, own):  # noqa: ARG001
    """Add the shadow made by `_with_own_shadow` to that of `x`."""
    if x.kind is Const:
        return lambda x, own: None

    def impl(x, own):
        shadow = x.dval
        shadow += own.dval

    return impl


_SCOPE = {
    **by_name(Active, AugmentedReturn, Const, Duplicated, MixedDuplicated, prefix="_"),
    **by_name(active, as_strict, autodiff, make_zero, passing, prefix="_"),
    **by_name(exchange_states, random_states, prefix="_"),
    **by_name(_add_own_shadow, _require_constant, _with_copy, _with_own_shadow),
    "_Single": Const | Duplicated,
    "_apart": njit(apart(_OVERLAP, NotYetSupported)),
    "_copy_like": copy_in_place,
}
