"""The rule compiler: the rule of a marked call, chosen and compiled to the engine's convention.

Needs       the marked calls of a capture, a rule registry
Gives       `NumbaRuleCompiler`, an `ir.rulecall.RuleCompiler`; its `libraries` define every symbol
            it hands out
Invariants  R1  what a rule returns and the tape its reverse takes are checked when the pair is
                compiled
            R2  a rule is compiled once per call signature and request
            R3  rules are compiled as if called from Python: no flag of the differentiated function
                reaches them

An array a rule returns as primal or shadow must be memory of its own, not that of an argument: the
engine takes its shadow for new. This is not checked.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

import numba
import numpy as np
from numba.core import errors as numba_errors
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.target_extension import target_override
from numba.core.typeconv.castgraph import Conversion

from activerules.annotations.activity import Active, Duplicated
from activerules.annotations.values import make_zero
from activerules.errors import (
    NotCompilable,
    NotYetSupported,
    RuleError,
    RuleReturnError,
    TapeMismatch,
)
from activerules.ir.rulecall import (
    ArgumentKind,
    CallArgument,
    CallInfo,
    ForwardRuleCode,
    ForwardRuleRequest,
    ResultKind,
    RuleCode,
    RuleRequest,
)
from activerules.numba_ext import overloads  # noqa: F401  (what rules call: accumulate, make_zero)
from activerules.numba_ext.abi import flatten, float_elements
from activerules.numba_ext.calls import MarkedCall, uninherited_flags
from activerules.numba_ext.facts import RuleFunctionCompiler
from activerules.numba_ext.rulewrap import (
    CompiledRule,
    RuleArgument,
    Symbols,
    annotation_type,
    build,
    cpu_context,
    needs_drop,
    tape_layout,
    types_of,
)
from activerules.numba_ext.types import ConfigType
from activerules.rules.protocol import AugmentedReturn, RuleConfig
from activerules.rules.rule import RulePair

SYMBOL_PREFIX = "activerules.rulecode."

# NumPy functions that write into an argument; all others only read them.
_NUMPY_WRITERS = frozenset({"copyto", "fill_diagonal", "put", "place", "putmask", "shuffle"})


class RuleRegistry(Protocol):
    """What the compiler asks of a registry; `activerules.rules.registry.Registry` is one."""

    def find(
        self,
        function: Any,
        argument_types: Sequence[Any],
        return_type: Any,
        activities: Sequence[Any],
        result_activity: Any,
    ) -> RulePair:
        """The most specific pair for a call; raises the errors of the rule system."""
        ...

    def is_inactive(self, function: object) -> bool:
        """Whether nothing the function returns carries a derivative."""
        ...

    def inactive_arguments(self, function: object, names: Sequence[str]) -> frozenset[int]:
        """Positions of the arguments its result does not depend on smoothly."""
        ...


class NumbaRuleCompiler:
    """Serves the marked calls of one capture."""

    def __init__(self, marked: Mapping[str, MarkedCall], registry: RuleRegistry) -> None:
        self._marked = marked
        self._registry = registry
        self._codes: dict[tuple[str, RuleRequest], RuleCode] = {}
        self._libraries: list[Any] = []

    @property
    def libraries(self) -> tuple[Any, ...]:
        """Code libraries of the compiled rules so far, and of the marked functions themselves."""
        primal = (marked.cpu_library for marked in self._marked.values())
        return tuple(dict.fromkeys((*self._libraries, *primal)))

    def call_info(self, symbol: str) -> CallInfo:
        """The record of a marked call; KeyError if `symbol` is none.

        Raises `NotYetSupported` for results that hold floats but are not a float or an array of
        floats: their derivative would be lost.
        """
        marked = self._marked[symbol]
        returned = marked.signature.return_type
        inactive = self._registry.is_inactive(marked.function)
        if not inactive and _result_kind(returned) == "const" and _holds_floats(returned):
            raise NotYetSupported(
                f"{marked.name} has a rule and returns {returned}",
                where=[("at the call", marked.name, marked.location)],
                why="a function with a rule returns a float, an array of floats, or nothing",
                instead=["return the parts from functions of their own"],
            )
        context = cpu_context()
        return CallInfo(
            name=marked.name,
            location=marked.location,
            arguments=self._call_arguments(marked),
            result_kind=_result_kind(returned),
            result_size=context.get_abi_sizeof(context.get_return_type(returned)),
            result_meminfos=(0,) if isinstance(returned, types.Array) else (),
            primal_symbol=marked.cpu_symbol,
            inactive=inactive,
            result_element=float_elements(returned),
        )

    def _call_arguments(self, marked: MarkedCall) -> tuple[CallArgument, ...]:
        inactive = self._registry.inactive_arguments(marked.function, marked.argument_names)
        arguments = []
        start = 2  # after retptr and excinfo
        for i, (name, found) in enumerate(
            zip(marked.argument_names, marked.signature.args, strict=True)
        ):
            slots = flatten(found)
            kind = "const" if i in inactive else _argument_kind(found)
            data = [start + k for k, slot in enumerate(slots) if slot.role == "data"]
            arguments.append(
                CallArgument(
                    name=name,
                    kind=kind,
                    operands=tuple(range(start, start + len(slots))),
                    data_operand=data[0] if kind == "memory" else None,
                    written=_may_write(marked.function, found),
                    element=float_elements(found),
                    declared_inactive=i in inactive,
                )
            )
            start += len(slots)
        return tuple(arguments)

    @global_compiler_lock
    def choose(self, symbol: str, request: RuleRequest) -> RuleCode:
        """The compiled rule that serves a marked call with given activities.

        Raises the registry's errors, `RuleReturnError`, `TapeMismatch`, and `NotCompilable` where
        Numba cannot type a rule function.
        """
        key = (symbol, request)
        if key not in self._codes:
            marked = self._marked[symbol]
            try:
                self._codes[key] = self._compile(marked, request)
            except RuleError as error:
                error.add_where("at the call", marked.name, marked.location)
                raise
        return self._codes[key]

    def choose_forward(self, symbol: str, request: ForwardRuleRequest) -> ForwardRuleCode | None:
        """The compiled forward rule that serves a marked call; None: there are none yet."""
        return None

    def _compile(self, marked: MarkedCall, request: RuleRequest) -> RuleCode:
        arguments = [_value_type(found) for found in marked.signature.args]
        pair = self._registry.find(
            marked.function,
            arguments,
            marked.signature.return_type,
            request.activities,
            request.result,
        )
        rule = compile_rule(marked, pair, request)
        symbols = _symbols(rule, request)
        self._libraries.append(build(rule, symbols))
        size, alignment = tape_layout(rule)
        return RuleCode(
            augmented=symbols.augmented,
            reverse=symbols.reverse,
            tape_size=size,
            tape_alignment=alignment,
            drop=symbols.drop if needs_drop(rule) else None,
            description=f"{_written(pair, rule)} {pair.location}",
        )


def compile_rule(marked: MarkedCall, pair: RulePair, request: RuleRequest) -> CompiledRule:
    """Compile both halves for the CPU and check what they return (R1)."""
    with ExitStack() as stack:
        stack.enter_context(target_override("cpu"))
        stack.enter_context(uninherited_flags())
        typing_context = cpu_typing_context()
        arguments = _rule_arguments(marked, pair, request)
        config = ConfigType(
            RuleConfig(
                overwritten=request.overwritten,
                needs_primal=request.needs_primal,
                needs_shadow=request.needs_shadow,
            )
        )
        annotations = tuple(argument.annotation for argument in arguments)
        result = annotation_type(pair.result, marked.signature.return_type)
        marker = typing_context.resolve_value_type(pair.result)
        augmented = _compile(pair.augmented, (config, marker, *annotations), pair)
        tape = _check_augmented(augmented, marked, pair, request)
        reverse = _compile_reverse((config, result, tape, *annotations), pair, tape)
        return CompiledRule(
            marked=marked,
            config=config,
            return_marker=marker,
            arguments=arguments,
            result=result,
            result_activity=request.result,
            augmented=augmented,
            reverse=reverse,
            derivatives=_derivative_places(reverse, arguments, pair),
            zero_makers={
                a.value_type: _compile(make_zero_of, (a.value_type,), pair)
                for a in arguments
                if a.needs_scratch
            },
        )


def make_zero_of(x: Any) -> Any:
    """The function that makes scratch shadows."""
    return make_zero(x)


# --- what a call looks like to the engine ---


def _argument_kind(found: types.Type) -> ArgumentKind:
    if isinstance(found, types.Float):
        return "value"
    return "memory" if _is_float_array(found) else "const"


def _result_kind(found: types.Type) -> ResultKind:
    if found == types.none:
        return "none"
    return _argument_kind(found)


def _holds_floats(found: types.Type) -> bool:
    if isinstance(found, types.BaseTuple):
        return any(map(_holds_floats, types_of(found)))
    if isinstance(found, types.Record):
        return any(_holds_floats(field.type) for field in found.fields.values())
    return isinstance(getattr(found, "dtype", found), types.Float | types.Complex)


def _is_float_array(found: types.Type) -> bool:
    return isinstance(found, types.Array) and isinstance(found.dtype, types.Float | types.Complex)


def _may_write(function: Any, found: types.Type) -> bool:
    if isinstance(found, types.Array) and not found.mutable:
        return False
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, np.ufunc) or module in (math.__name__, operator.__name__, "_operator"):
        return isinstance(function, np.ufunc) or name.startswith("i")
    return not (module.split(".")[0] == "numpy" and name not in _NUMPY_WRITERS)


# --- typing a rule ---


def cpu_typing_context() -> Any:
    """The CPU's typing context, with everything loaded that was registered so far."""
    context: Any = cpu_target.typing_context
    context.refresh()
    return context


def _value_type(found: types.Type) -> types.Type:
    """The type a rule sees: that of the default where the argument was left out."""
    return numba.typeof(found.value) if isinstance(found, types.Omitted) else types.unliteral(found)


def _rule_arguments(
    marked: MarkedCall, pair: RulePair, request: RuleRequest
) -> tuple[RuleArgument, ...]:
    return tuple(
        RuleArgument(
            name=name,
            passed=found,
            value_type=_value_type(found),
            activity=activity,
            annotation=annotation_type(kind, _value_type(found)),
        )
        for name, found, activity, kind in zip(
            marked.argument_names,
            marked.signature.args,
            request.activities,
            pair.arguments,
            strict=True,
        )
    )


# Per function: compiling again would give code of the same behaviour, and lose what was compiled.
_dispatchers: dict[Any, Any] = {}


def _dispatcher(function: Any) -> Any:
    if function not in _dispatchers:
        options = dict(getattr(function, "targetoptions", {}))
        options.pop("nopython", None)
        plain = getattr(function, "py_func", function)
        decorate = numba.njit(pipeline_class=RuleFunctionCompiler, **options)
        _dispatchers[function] = decorate(plain)
    return _dispatchers[function]


def _compile(function: Any, args: tuple[types.Type, ...], pair: RulePair) -> Any:
    dispatcher = _dispatcher(function)
    try:
        dispatcher.compile(args)
    except numba_errors.NumbaError as error:
        raise NotCompilable(
            f"Numba cannot compile the rule of {pair.name} in nopython mode",
            where=[_rule_location(function, args)],
            why=str(error).strip(),
        ) from error
    return dispatcher.overloads[args]


def _compile_reverse(args: tuple[types.Type, ...], pair: RulePair, tape: types.Type) -> Any:
    wanted = pair.tape_type
    if isinstance(wanted, types.Type) and not _converts(tape, wanted):
        raise TapeMismatch(
            f"the tape of {pair.name} is {tape}, and its reverse takes {wanted}",
            where=[
                _rule_location(pair.augmented, ()),
                _rule_location(pair.reverse, ()),
            ],
            instead=[f"return a tape of type {wanted}", f"annotate `tape` with {tape}"],
        )
    try:
        return _compile(pair.reverse, args, pair)
    except NotCompilable as error:
        if not _speaks_of_tape(error, pair, tape):
            raise
        raise TapeMismatch(
            f"the reverse of {pair.name} cannot use the tape its augmented primal makes: {tape}",
            where=error.where,
            why=error.why,
            instead=["make both halves agree on what the tape holds"],
        ) from error


def _speaks_of_tape(error: NotCompilable, pair: RulePair, tape: types.Type) -> bool:
    """Whether Numba failed at a line of the reverse that uses its tape, on a value of the tape's
    type.
    """
    plain = getattr(pair.reverse, "py_func", pair.reverse)
    name = plain.__code__.co_varnames[2]
    return str(tape) in error.why and re.search(rf"\b{name}\b", error.why) is not None


def _check_augmented(
    augmented: Any, marked: MarkedCall, pair: RulePair, request: RuleRequest
) -> types.Type:
    """Check what an augmented primal returns; gives the type of its tape."""
    returned = augmented.signature.return_type
    if getattr(returned, "instance_class", None) is not AugmentedReturn:
        raise _wrong_return(pair.augmented, pair, returned, "AugmentedReturn(primal, shadow, tape)")
    primal, shadow, tape = types_of(returned)
    expected = marked.signature.return_type
    if not _converts(primal, expected):
        raise _wrong_return(pair.augmented, pair, primal, f"{expected} as primal")
    if pair.result is Duplicated and not _converts(shadow, expected):
        raise _wrong_return(pair.augmented, pair, shadow, f"{expected} as shadow")
    if not tape.is_precise() or isinstance(tape, types.Optional):
        raise _wrong_return(pair.augmented, pair, tape, "a tape of one type")
    return tape


def _derivative_places(
    reverse: Any, arguments: Sequence[RuleArgument], pair: RulePair
) -> tuple[int | None, ...]:
    """Where the derivative of each Active argument of the call stands in what the reverse
    returns.
    """
    returned = reverse.signature.return_type
    active = [i for i, a in enumerate(arguments) if a.annotation.kind is Active]
    is_tuple = isinstance(returned, types.BaseTuple)
    if is_tuple and len(returned) == len(arguments):
        entries = dict(enumerate(types_of(returned)))
        places = {i: i for i in active}
    elif len(active) == 1 and not is_tuple:
        entries, places = {active[0]: returned}, {active[0]: None}
    elif not active and returned == types.none:
        entries, places = {}, {}
    else:
        raise _wrong_return(pair.reverse, pair, returned, _expected_derivatives(arguments))
    for i, argument in enumerate(arguments):
        found = entries.get(i, types.none)
        if not _fits(argument, found):
            what = f"{_expected_derivatives(arguments)}; entry {i} (`{argument.name}`)"
            raise _wrong_return(pair.reverse, pair, returned, what)
    return tuple(places[i] for i, a in enumerate(arguments) if a.activity == "active")


def _fits(argument: RuleArgument, found: types.Type) -> bool:
    if argument.annotation.kind is Active:
        return _converts(found, argument.value_type)
    if argument.annotation.kind is Duplicated:
        return found == types.none
    return True


def _expected_derivatives(arguments: Sequence[RuleArgument]) -> str:
    entries = [str(a.value_type) if a.annotation.kind is Active else "None" for a in arguments]
    whole = f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"
    active = [entry for entry in entries if entry != "None"]
    if len(active) > 1:
        return whole
    return f"{whole} or {active[0] if active else 'None'}"


def _converts(found: types.Type, expected: types.Type) -> bool:
    """Whether a value of type `found` can stand for one of type `expected` without loss."""
    if isinstance(found, types.Optional):
        return False
    if found == expected:
        return True
    if (found == types.none) != (expected == types.none):
        return False
    conversion = cpu_typing_context().can_convert(found, expected)
    return conversion is not None and conversion <= Conversion.safe


def _wrong_return(
    function: Any, pair: RulePair, found: types.Type, expected: str
) -> RuleReturnError:
    return RuleReturnError(
        f"the rule of {pair.name} returns {found}, expected {expected}",
        where=[_rule_location(function, ())],
    )


def _rule_location(function: Any, args: tuple[types.Type, ...]) -> tuple[str, str, str]:
    plain = getattr(function, "py_func", function)
    code = plain.__code__
    annotated = ", ".join(str(a) for a in args)
    text = f"{plain.__name__}({annotated})" if args else plain.__name__
    return "in the rule", text, f"{code.co_filename}:{code.co_firstlineno}"


def _symbols(rule: CompiledRule, request: RuleRequest) -> Symbols:
    parts = (
        rule.marked.symbol,
        rule.augmented.fndesc.llvm_func_name,
        rule.reverse.fndesc.llvm_func_name,
        repr(request),
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    stem = f"{SYMBOL_PREFIX}{re.sub(r'[^A-Za-z0-9_.]', '_', rule.marked.name)}.{digest}"
    return Symbols(f"{stem}.augmented", f"{stem}.reverse", f"{stem}.drop")


def _written(pair: RulePair, rule: CompiledRule) -> str:
    arguments = ", ".join(f"{a.name}: {a.annotation.kind.__name__}" for a in rule.arguments)
    return f"{pair.name}({arguments}) -> {pair.result.__name__}"
