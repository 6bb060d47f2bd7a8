"""The rule compiler: the rule of a marked call, chosen and compiled to the engine's convention.

Needs       the marked calls of a capture, a rule registry
Gives       `NumbaRuleCompiler`, an `ir.derivatives.rulecall.RuleCompiler`; its `libraries` define
            every symbol it hands out
Invariants  R1  a rule is compiled once per call signature and request
            R2  an error about a rule names the call that needed it
            R3  the results are new memory, as `results` says
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

from activerules.annotations.activity import Const
from activerules.errors import NotYetSupported, RuleDefinitionError, RuleError
from activerules.ir.derivatives.rulecall import (
    CallArgument,
    CallInfo,
    ForwardRuleCode,
    ForwardRuleRequest,
    RuleCode,
    RuleRequest,
)
from activerules.ir.llvm.names import in_symbols
from activerules.numba_ext.calls import (
    overloads,  # noqa: F401  (what rules call: accumulate, make_zero)
    products,  # noqa: F401  (what the rules of products call)
    triangular,  # noqa: F401  (what the rules of linear algebra call)
)
from activerules.numba_ext.codegen.progress import PROGRESS
from activerules.numba_ext.codegen.unlinked import cpu_context
from activerules.numba_ext.replaced.transfer import changes_shadows
from activerules.numba_ext.rules.compiled import (
    CompiledRule,
    Request,
    Rule,
    Served,
    Symbols,
    needs_drop,
    tape_layout,
)
from activerules.numba_ext.rules.debug import checked_forward, checked_pair
from activerules.numba_ext.rules.forward_of_pair import forward_of_pair, tangents_bypass
from activerules.numba_ext.rules.forward_rules import (
    build_forward,
    build_source,
    compile_forward_rule,
)
from activerules.numba_ext.rules.functions import flags_in_place_of
from activerules.numba_ext.rules.pair_rules import compile_rule, parameters_of
from activerules.numba_ext.rules.parts import flattened, wholes_of
from activerules.numba_ext.rules.primals import SYMBOL_PREFIX, Primals
from activerules.numba_ext.rules.results import (
    activity_of_result,
    argument_kind,
    element_of,
    floats_beside_arrays,
    result_kind,
)
from activerules.numba_ext.rules.stored import Stored, StoredRules
from activerules.numba_ext.rules.tapes import is_trusted
from activerules.numba_ext.rules.wrap import build
from activerules.numba_ext.target.inactive_results import forward_of_zeros, pair_of_zeros
from activerules.numba_ext.target.marked_calls import MarkedCall, plain_type
from activerules.rules.library.linalg import dot_value
from activerules.rules.pattern import type_name
from activerules.rules.registry import Registry
from activerules.rules.rule import ForwardRule, RulePair
from activerules.values.abi import AbiParameter, flatten, meminfo_offsets
from activerules.values.kinds import float_elements, leaves_of
from activerules.values.layout import layout_of

# NumPy functions that write into an argument; all others only read them.
_NUMPY_WRITERS = frozenset({"copyto", "fill_diagonal", "put", "place", "putmask", "shuffle"})


T = TypeVar("T")


class NumbaRuleCompiler:
    """Serves the marked calls of one capture; `seconds` is how long it compiled rules, `missed` the
    rules that nearly served calls, by the name and location of the call.
    """

    def __init__(self, marked: Mapping[str, MarkedCall], registry: Registry) -> None:
        self._marked = marked
        self._registry = registry
        self._codes: dict[tuple[str, RuleRequest], RuleCode] = {}
        self.sources: dict[str, Callable[[Any], Any]] = {}
        self.called: dict[str, MarkedCall] = {}
        self._forward_codes: dict[tuple[str, ForwardRuleRequest], ForwardRuleCode | None] = {}
        self._primals = Primals()
        self._libraries: list[Any] = []
        self.seconds = 0.0
        self.missed: dict[tuple[str, str], str] = {}

    @global_compiler_lock
    def libraries(self, text: str) -> tuple[Any, ...]:
        """Code libraries of the rules and the marked functions that `text` calls."""
        return tuple(dict.fromkeys((*self._libraries, *self._primals.libraries(text))))

    @global_compiler_lock
    def call_info(self, symbol: str) -> CallInfo:
        """The record of a marked call; KeyError if `symbol` is none.

        Raises `NotYetSupported` for results with floats whose derivative rules cannot give: it
        would be lost.
        """
        marked = self._marked[symbol]
        returned = marked.result_type
        inactive = self._is_inactive(marked)
        if not inactive and result_kind(returned) == "const" and layout_of(returned).numbers.any:
            raise NotYetSupported(
                f"{marked.name} has a rule and returns {type_name(returned)}",
                where=[("at the call", marked.name, marked.location)],
                why="the memory that a rule returns is one to the analyses: arrays with floats of "
                "one precision, in tuples or not; a list, dictionary or object leads to memory of "
                "several kinds, and a record has no owner",
                instead=["return the parts from functions of their own"],
            )
        stored = marked.signature.return_type  # a literal text, unlike others, has no data in it
        if not inactive and any(isinstance(ty, types.StringLiteral) for ty in leaves_of(stored)):
            raise NotYetSupported(
                f"{marked.name} has a rule and returns {type_name(stored)}",
                where=[("at the call", marked.name, marked.location)],
                why="a text that is written in a function is part of the type of what it returns",
                instead=["return the text, or a number for it, from a function of its own"],
            )
        context = cpu_context()
        primal_symbol = self._primals.symbol(marked, is_new=self._is_new_memory(marked))
        self.called[primal_symbol] = marked
        return CallInfo(
            name=marked.name,
            location=marked.location,
            arguments=self._call_arguments(marked),
            result_kind=result_kind(returned),
            result_size=context.get_abi_sizeof(context.get_return_type(stored)),
            result_meminfos=meminfo_offsets(stored),
            primal_symbol=primal_symbol,
            inactive=inactive,
            hands_out=layout_of(returned).is_container,
            borrows=_is_numpy(marked),
            result_element=element_of(returned),
            result_floats=floats_beside_arrays(returned),
            receives=self._registry.data_paths(marked.function).into_result,
        )

    def _is_new_memory(self, marked: MarkedCall) -> bool:
        """Whether a returned array is known, or promised, not to be memory of an argument.

        Debug mode checks promises.
        """
        is_promised = self._registry.debug is None and self._registry.is_noalias(marked.function)
        return _is_numpy(marked) or is_promised

    def _call_arguments(self, marked: MarkedCall) -> tuple[CallArgument, ...]:
        inactive = self._registry.inactive_arguments(marked.function, marked.argument_names)
        paths = self._registry.data_paths(marked.function)
        flat = flattened(marked)
        whole_of = [(i, w) for i, w in enumerate(wholes_of(marked)) for _ in w.parts]
        arguments = []
        start = 2  # after retptr and excinfo
        for name, ty, (i, whole) in zip(
            flat.argument_names, flat.signature.args, whole_of, strict=True
        ):
            slots = flatten(ty)
            is_inactive_type = self._registry.is_inactive_type
            stopped = i in inactive or any(map(is_inactive_type, (ty, whole.numba_type)))
            kind = "const" if stopped else argument_kind(ty)
            pointers = [start + k for k in _pointers(slots)]
            operands = tuple(range(start, start + len(slots)))
            of_array = (
                {slot.role: start + k for k, slot in enumerate(slots)} if kind == "memory" else {}
            )
            arguments.append(
                CallArgument(
                    name=name,
                    kind=kind,
                    operands=operands,
                    data_operand=of_array.get("data"),
                    written=_may_write(marked, i, ty, pointers, operands),
                    element=float_elements(ty),
                    declared_inactive=stopped,
                    opaque=type_name(ty) if _is_opaque(kind, ty) and not stopped else "",
                    container=layout_of(ty).is_container,
                    replaces_pointers=layout_of(ty).is_container and marked.replaces_pointers,
                    keyed=layout_of(ty).has_keys,
                    pointers=tuple(pointers),
                    owner=of_array.get("meminfo"),
                    shadow_written=changes_shadows(marked.function, i),
                    sent=i in paths.sends,
                    received=i in paths.receives,
                    takes_shadow=kind in ("memory", "object") and self._takes_shadow(marked, i),
                )
            )
            start += len(slots)
        return tuple(arguments)

    def _takes_shadow(self, marked: MarkedCall, position: int) -> bool:
        """Whether a rule takes an argument Duplicated; one that takes it Const alone says that no
        derivative passes through it.
        """
        rules = self._registry.rules_for(marked.function)
        patterns = [r.arguments[position] for r in rules if position < len(r.arguments)]
        return any(each.kind is not Const for pattern in patterns for each in pattern)

    @global_compiler_lock
    def choose(self, symbol: str, request: RuleRequest) -> RuleCode:
        """The compiled rule that serves a marked call with given activities.

        Raises the registry's errors, `RuleReturnError`, `TapeMismatch`, and `NotCompilable` where
        Numba cannot type a rule function.
        """
        return self._once(symbol, request, self._codes, self._compile)

    @global_compiler_lock
    def choose_forward(self, symbol: str, request: ForwardRuleRequest) -> ForwardRuleCode | None:
        """The compiled forward rule that serves a marked call; None if the function has none.

        Raises as `choose` does.
        """
        return self._once(symbol, request, self._forward_codes, self._compile_forward)

    def _once(
        self,
        symbol: str,
        request: Request,
        codes: dict[tuple[str, Request], T],
        compile_one: Callable[[MarkedCall, Request], T],
    ) -> T:
        if self._registry.debug is not None:  # the checks compare the primal
            request = replace(request, needs_primal=True)
        key = (symbol, request)
        if key not in codes:
            marked = self._marked[symbol]
            with self._timed(marked.name), _compiling(marked, request):
                codes[key] = compile_one(marked, request)
        return codes[key]

    @contextmanager
    def _timed(self, name: str) -> Generator[None, None, None]:
        start = time.perf_counter()
        with PROGRESS.stage(name, "rule"):
            yield
        self.seconds += time.perf_counter() - start

    def _compile_forward(
        self, marked: MarkedCall, request: ForwardRuleRequest
    ) -> ForwardRuleCode | None:
        chosen = self._find_forward(marked, request)
        if chosen is None:
            return None
        call = self._served(marked, chosen, request)

        def make(stem: str) -> tuple[str, Any, list[str]]:
            rule = self._checked_rule(compile_forward_rule, checked_forward, call)
            symbol = f"{_named(marked, stem)}.forward"
            return symbol, build_forward(rule, symbol, call.written), [symbol]

        stored = self._stored((chosen.function,), call, make)
        self.sources[stored.handle] = partial(build_source, call=call, symbol=stored.handle)
        return ForwardRuleCode(stored.handle, _rule_description(chosen, marked))

    def _find_forward(self, marked: MarkedCall, request: ForwardRuleRequest) -> ForwardRule | None:
        if self._is_inactive(marked):
            return forward_of_zeros(marked, request.width)
        function, argtypes = marked.function, _types_of(marked)
        kinds = [whole.activity(request.activities, forward=True) for whole in wholes_of(marked)]
        kinds.append(request.result)
        if not self._registry.lacks("forward", function):
            return self._registry.find_forward(
                function, argtypes, kinds, request.width, marked.argument_names
            )
        call, pair = self._registry.find_behind(function, argtypes, kinds)
        if self._registry.data_paths(function).bypasses:
            raise tangents_bypass(marked, pair)
        arguments = self.call_info(marked.symbol).arguments
        written = [any(arguments[k].written for k in whole.parts) for whole in wholes_of(marked)]
        return forward_of_pair(marked, pair, call.kinds, written, looped=request.width > 1)

    def _find(self, marked: MarkedCall, request: RuleRequest) -> RulePair:
        if self._is_inactive(marked):
            return pair_of_zeros(marked)
        kinds = [whole.activity(request.activities) for whole in wholes_of(marked)]
        kinds.append(activity_of_result(marked.result_type, request.result))
        return self._registry.find(marked.function, _types_of(marked), kinds, marked.argument_names)

    def _served(self, marked: MarkedCall, rule: Rule, request: Request) -> Served[Rule, Request]:
        if rule.missed:
            self.missed[marked.name, marked.location] = rule.missed
        arguments = self.call_info(marked.symbol).arguments
        written = tuple(argument.written for argument in arguments)
        inactive = tuple(argument.declared_inactive for argument in arguments)
        return Served(marked, rule, request, written, inactive, self._is_new_memory(marked))

    def _is_inactive(self, marked: MarkedCall) -> bool:
        registry = self._registry
        return registry.is_inactive(marked.function) or registry.is_inactive_type(
            marked.result_type
        )

    def _compile(self, marked: MarkedCall, request: RuleRequest) -> RuleCode:
        pair = self._find(marked, request)
        call = self._served(marked, pair, request)

        def make(stem: str) -> tuple[RuleCode, Any, list[str]]:
            rule = self._checked_rule(compile_rule, checked_pair, call)
            symbols = Symbols.beginning(_named(marked, stem))
            code = _rule_code(rule, symbols, keeps_shadow=pair.keeps_shadow)
            exported = [code.augmented, code.reverse, code.drop, code.new_shadow]
            return code, build(rule, symbols), [symbol for symbol in exported if symbol]

        stored = self._stored((pair.augmented, pair.reverse), call, make)
        return replace(
            stored.handle, description=_rule_description(pair, marked), borrows=is_trusted(pair)
        )

    def _checked_rule(
        self,
        compile_one: Callable[..., Any],
        with_checks: Callable[..., Any],
        call: Served[Any, Any],
    ) -> Any:
        """The compiled rule; in debug mode, compiled again with checks around it."""
        compiled, debug = compile_one(call), self._registry.debug
        if debug is None:
            return compiled
        return compile_one(replace(call, rule=with_checks(call, debug, compiled)))

    def _stored(
        self,
        functions: tuple[Any, ...],
        call: Served[Any, Any],
        make: Callable[[str], tuple[Any, Any, Sequence[str]]],
    ) -> Stored:
        """The compiled rule, from the cache or newly made."""
        marked = call.marked
        argtypes = (*marked.signature.args, marked.signature.return_type)
        debug = self._registry.debug and (repr(self._registry.debug), marked.location)
        flags = flags_in_place_of(marked.function)
        facts = (
            marked.name,
            marked.argument_names,
            _fields_of(call.rule),
            call.request,
            call.written,
            call.noalias,
            debug,
            flags,
        )
        stored = _compiled_rules.find_or_make(functions, argtypes, facts, make)
        self._libraries.append(stored.library)
        return stored


_compiled_rules = StoredRules()


def _fields_of(chosen: RulePair | ForwardRule) -> tuple[Hashable, ...]:
    """The fields of a rule that its code depends on."""
    excluded = {"augmented", "reverse", "function", "location", "lost", "missed"}
    values = [getattr(chosen, field.name) for field in fields(chosen) if field.name not in excluded]
    return tuple(tuple(sorted(v)) if isinstance(v, frozenset) else v for v in values)


def _rule_code(rule: CompiledRule, symbols: Symbols, *, keeps_shadow: bool) -> RuleCode:
    size, alignment = tape_layout(rule)
    return RuleCode(
        augmented=symbols.augmented,
        reverse=symbols.reverse,
        tape_size=size,
        tape_alignment=alignment,
        drop=symbols.drop if needs_drop(rule) else None,
        description="",
        keeps_shadow=keeps_shadow,
        new_shadow=symbols.new_shadow if rule.new_shadow is not None else None,
    )


# The rules being compiled: each one needs a derivative that needs the next.
_in_progress: list[tuple[str, RuleRequest | ForwardRuleRequest]] = []


@contextmanager
def _compiling(
    marked: MarkedCall, request: RuleRequest | ForwardRuleRequest
) -> Generator[None, None, None]:
    """Errors about a rule name the call that needed it; a rule that needs itself is refused."""
    key = (marked.symbol, request)
    try:
        if key in _in_progress:
            raise RuleDefinitionError(
                f"the rule of {marked.name} needs itself",
                why=f"it asks for the derivative of a function that calls {marked.name}",
                instead=[f"differentiate a function that does not call {marked.name}"],
            )
        _in_progress.append(key)
        try:
            yield
        finally:
            _in_progress.pop()
    except RuleError as error:
        error.add_where("at the call", marked.name, marked.location)
        raise


# --- a call as the engine sees it ---


def _is_numpy(marked: MarkedCall) -> bool:
    """Whether a function is a NumPy function or an operator."""
    module = getattr(marked.function, "__module__", None) or ""
    return module.split(".")[0] in ("numpy", "_operator")


def _pointers(slots: Sequence[AbiParameter]) -> list[int]:
    """The slots through which a function accesses the memory of an argument; for a container that
    is its owner alone.
    """
    next_roles = [*(slot.role for slot in slots[1:]), ""][: len(slots)]
    return [
        k
        for k, (slot, after) in enumerate(zip(slots, next_roles, strict=True))
        if slot.role in ("data", "pointer") or (slot.role == "meminfo" and after != "parent")
    ]


def _types_of(marked: MarkedCall) -> list[types.Type]:
    """The types of the arguments and, last, of the result, as rules see them."""
    return [*map(plain_type, marked.signature.args), marked.result_type]


def _is_opaque(kind: str, ty: types.Type) -> bool:
    """Whether a type has floats, and rules treat it as constant."""
    return kind == "const" and layout_of(ty).numbers.any


def _may_write(
    marked: MarkedCall,
    position: int,
    ty: types.Type,
    pointers: Sequence[int],
    operands: Sequence[int],
) -> bool:
    """Whether a function may write into the memory of an argument, judged by types and LLVM."""
    if isinstance(ty, types.Array) and not ty.mutable:
        return False
    if layout_of(ty).is_container:
        return not marked.only_reads_through(operands)
    if all(marked.promises[k] & {b"readonly", b"readnone"} for k in pointers):
        return False
    function = marked.function
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, np.ufunc) or module in (math.__name__, operator.__name__, "_operator"):
        return isinstance(function, np.ufunc) or name.startswith("i")
    if module.split(".")[0] != "numpy":
        return function is not dot_value and not marked.only_reads_through(pointers)
    if name in _NUMPY_WRITERS:
        return True
    return marked.argument_names[position] == "out" or (name, position) == ("dot", 2)


def _named(marked: MarkedCall, stem: str) -> str:
    """The beginning of the names of a rule's functions, which `stem` makes unique."""
    return f"{SYMBOL_PREFIX}{in_symbols(marked.name)}.{stem}"


def _rule_description(chosen: RulePair | ForwardRule, marked: MarkedCall) -> str:
    """A line about the rule: its definition, its location, and how it was adapted to the call."""
    passed = parameters_of(marked, chosen)
    arguments = ", ".join(f"{a.name}: {a.annotation.kind.__name__}" for a in passed)
    written = f"{chosen.name}({arguments}) -> {chosen.result.__name__} {chosen.location}"
    lowered = [
        f"`{argument.name}` is Const here: {_LOWERED[how]}"
        for argument, how in zip(passed, chosen.lowering, strict=True)
        if how in _LOWERED
    ]
    if isinstance(chosen, RulePair) and chosen.result_lowering != "as is":
        lowered.append("the result is Const here: its cotangent is zero")
    if isinstance(chosen, ForwardRule) and chosen.looped:
        lowered.append("for one tangent: it runs once per lane")
    if chosen.lost:
        lowered.append(f"it wins over the library's rule, {chosen.lost}")
    if chosen.beside:
        mode = "forward" if isinstance(chosen, RulePair) else "reverse"
        lowered.append(f"the library's; your rule, {chosen.beside}, is for {mode} mode alone")
    if chosen.missed:
        lowered.append(f"the library's; {chosen.missed}")
    return "; ".join([written, *lowered])


_LOWERED = {
    "drop result": "its derivative is dropped",
    "scratch shadow": "its shadow is thrown away",
}
