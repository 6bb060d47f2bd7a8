"""Forward rules: typed, checked, and called through the engine's convention.

Needs       a marked call, the forward rule chosen for it, and the request it was chosen by
Gives       `compile_forward_rule`: a `CompiledForwardRule`; `build_forward`: the library that
            defines the function the engine calls (its convention is in `ir.derivatives.rulecall`)
Invariants  F1  what the rule returns is checked when it is compiled
            F2  a rule of width 1 runs once per lane; every run finds the arguments as the first
                one did, and leaves them as that did
            F3  a status other than 0 leaves nothing behind: results of earlier lanes are released
            F4  where a rule is differentiated, arguments that were declared inactive are constants

A rule may return more than the call needs: unused results are released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numba.core import cgutils, types
from numba.core.target_extension import target_override

from activerules.ir.derivatives.rulecall import ForwardRuleRequest
from activerules.numba_ext.calls.refused_kinds import refuse_generators
from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.codegen.random_states import random_states, set_random_states
from activerules.numba_ext.codegen.types import ConfigType
from activerules.numba_ext.codegen.unlinked import uninherited_flags
from activerules.numba_ext.codegen.unoptimised import AD_TARGET
from activerules.numba_ext.rules.caller import NewLibrary, RuleCaller
from activerules.numba_ext.rules.checks import constant_of, copy_of, owned, restore, write_constant
from activerules.numba_ext.rules.compiled import CalledFunction, RuleArgument, Served
from activerules.numba_ext.rules.functions import (
    DERIVATIVE,
    Flags,
    callable_rule,
    compile_function,
    cpu_typing_context,
    flags_beside,
)
from activerules.numba_ext.rules.objects import is_copied_memory
from activerules.numba_ext.rules.pair_rules import (
    checks_of,
    parameters_of,
    rule_arguments,
)
from activerules.numba_ext.rules.return_types import ResultPath, forward_paths
from activerules.numba_ext.rules.returned import (
    call_of_rule,
    check_alike,
    check_apart,
    checked,
)
from activerules.numba_ext.substitutes.inactive_values import require_inactive
from activerules.numba_ext.target.effects import library_draws
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.numba_ext.target.target import Session
from activerules.rules.protocol import RuleConfig
from activerules.rules.rule import ForwardRule
from activerules.values.kinds import is_number_array, items_of, leaves_of
from activerules.values.layout import layout_of

_PLAIN = (types.Number, types.Boolean, types.NoneType)


@dataclass(frozen=True)
class CompiledForwardRule(CalledFunction):
    """A forward rule, type-checked and compiled.

    compiled         compile result of (config, ret, *annotations)
    primal, tangent  their paths in the rule's result; None if they are not in it, nor requested
    target           the one that the rule is compiled for
    """

    request: ForwardRuleRequest
    looped: bool
    compiled: Any
    primal: ResultPath
    tangent: ResultPath
    target: str


def compile_forward_rule(
    call: Served[ForwardRule, ForwardRuleRequest], target: str = "cpu"
) -> CompiledForwardRule:
    """Compile the rule and check what it returns (F1).

    `target` is that of the CPU, or the AD target for code that is differentiated again.
    """
    marked, chosen, request = call.marked, call.rule, call.request
    is_cpu = target == "cpu"
    width = 1 if chosen.looped else request.width
    config = ConfigType(_config(marked, request, width))
    with target_override(target), uninherited_flags():
        marker = cpu_typing_context().resolve_value_type(chosen.result)
        arguments = rule_arguments(marked, chosen, request, width)
        parameters = parameters_of(marked, chosen, width)
        annotations = tuple(parameter.annotation for parameter in parameters)
        types_ = (config, marker, *annotations)
        flags = flags_beside(marked.function)
        compiled = (
            compile_function(chosen.function, types_, chosen, flags)
            if is_cpu
            else _compile_source(chosen.function, types_, flags)
        )
        checks = checks_of(call, arguments)
        if not is_cpu:  # the engine sees what a rule does, but not what it takes for granted
            checks = replace(checks, apart=None, objects=())
        primal, tangent = forward_paths(compiled, marked, chosen, request)
        return CompiledForwardRule(
            marked,
            arguments,
            parameters,
            checks,
            request=request,
            looped=chosen.looped,
            compiled=compiled,
            primal=primal,
            tangent=tangent,
            target=target,
        )


def _config(marked: MarkedCall, request: ForwardRuleRequest, width: int) -> RuleConfig:
    """What the rule is told about the call."""
    return RuleConfig(
        overwritten=(False,) * len(marked.signature.args),
        needs_primal=request.needs_primal,
        needs_shadow=request.result != "const",
        width=width,
        **vars(request.options),
    )


_callable_rules: dict[Any, Any] = {}


def _compile_source(function: Any, args: tuple[types.Type, ...], flags: Flags = DERIVATIVE) -> Any:
    """The compile result of a function of a rule for the AD target of the session that compiles."""
    key = (function, flags)
    if key not in _callable_rules:
        _callable_rules[key] = callable_rule(function, flags)
    twin = Session.current().twin(_callable_rules[key])
    twin.compile(args)
    return twin.overloads[args]


def _is_restored(marked: MarkedCall, argument: RuleArgument, looped: bool) -> bool:
    ty = argument.value_type
    if not looped or (isinstance(ty, types.Array) and not ty.mutable):
        return False
    return is_copied_memory(marked, argument.name, ty)


def build_forward(
    rule: CompiledForwardRule,
    symbol: str,
    written: Sequence[bool],
    context: Context | None = None,
    stopped: Sequence[int] = (),
) -> Any:
    """Build the function the engine calls, for the CPU or for the target of `context`; `written`:
    which arguments the function may write; `stopped`: the positions of those that are passed to the
    rule without their derivatives.
    """
    library = NewLibrary(symbol, context)
    forward = _Forward(library, rule, symbol, written)
    forward.stop(stopped, written)
    forward.build()
    return library.finished([forward])


def build_source(
    context: Context, call: Served[ForwardRule, ForwardRuleRequest], symbol: str
) -> Any:
    """Build the same function as IR of the AD target, for derivatives that are differentiated
    again: so is the rule then. Calls in it that carry rules are marked calls.
    """
    rule = compile_forward_rule(call, AD_TARGET)
    stopped = [i for i, inactive in enumerate(call.inactive) if inactive]
    return build_forward(rule, symbol, call.written, context, stopped)


class _Forward(RuleCaller):
    def __init__(
        self, library: NewLibrary, rule: CompiledForwardRule, name: str, written: Sequence[bool]
    ) -> None:
        self.rule = rule
        width = rule.request.width
        self.ret_shadows = [f"ret_shadow{lane}" for lane in range(width)]
        leading = ("ret", *self.ret_shadows, "excinfo")
        super().__init__(library, name, rule, leading, width)
        self.others: list[tuple[Any, types.Type]] = []
        self.result: list[tuple[Any, types.Type]] = []
        self.written_back: list[tuple[types.Type, Any, Any]] = []
        self.restored = [
            (index, argument.value_type)
            for index, (argument, may_write) in enumerate(zip(rule.arguments, written, strict=True))
            if may_write and _is_restored(rule.marked, argument, rule.looped)
        ]

    def helper(self, function: Any, *args: types.Type) -> Any:
        """Like that of a pair, for the target of the rule."""
        if self.rule.target == "cpu":
            return super().helper(function, *args)
        with target_override(self.rule.target), uninherited_flags():
            return _compile_source(function, args)

    def stop(self, positions: Sequence[int], written: Sequence[bool]) -> None:
        """Replace numbers and arrays by constants, and require that other memory is constant (F4).

        What the function writes into an array is written to the argument in the end.
        """
        for i in positions:
            ty, value = self.arguments[i].value_type, self.primals[i]
            if self.arguments[i].passed != ty or not layout_of(ty).numbers.any:
                continue
            if not all(isinstance(leaf, _PLAIN) or is_number_array(leaf) for leaf in leaves_of(ty)):
                require_inactive(self.builder, value)
                continue
            self.primals[i] = self.made_for(ty, self.helper(constant_of, ty), [value])
            if written[i] and is_number_array(ty):
                self.written_back.append((ty, value, self.primals[i]))

    def build(self) -> None:
        if not self.rule.looped:
            self._keep(self._run(), range(self.rule.request.width), first=True)
        else:
            self._loop()
        for ty, value, copy in self.written_back:
            self.call(self.helper(write_constant, ty, ty), [value, copy])
        self.finish()

    def _loop(self) -> None:
        """Run a rule of width 1 once per lane (F2)."""
        arrays = [(i, t) for i, t in self.restored if isinstance(t, types.Array)]
        saved = [(i, t, self.call(self.helper(copy_of, t), [self.primals[i]])) for i, t in arrays]
        self.scratch += [(owned(t), copy) for _, t, copy in saved]
        objects = [(i, t) for i, t in self.restored if not isinstance(t, types.Array)]
        lanes = range(self.rule.request.width)
        copies = [[self._copy_of_object(i, t) for i, t in objects] for _ in lanes[1:]]
        restart = self._restart() if len(lanes) > 1 else None
        for lane in lanes:
            if lane > 0:
                if restart is not None:
                    restart()
                for i, t, copy in saved:
                    self.call(self.helper(restore, t, owned(t)), [self.primals[i], copy])
                for (i, _), copy in zip(objects, copies[lane - 1], strict=True):
                    self.primals[i] = copy
            self.shadows = iter(self.lanes[lane])
            self._keep(self._run(), (lane,), first=lane == 0)

    def _restart(self) -> Callable[[], object] | None:
        """What lets a run draw the same random numbers as the one that begins now; None if the rule
        draws none.
        """
        refuse_generators(a.value_type for a in self.arguments)
        if not library_draws(self.rule.compiled.library):
            return None
        states = self.helper(random_states.py_func)
        ty = states.signature.return_type
        kept = self.call(states, [])
        self.scratch.append((ty, kept))
        return lambda: self.call(self.helper(set_random_states.py_func, ty), [kept])

    def _copy_of_object(self, index: int, ty: types.Type) -> Any:
        """A copy of an object or other memory, for the run of a lane other than the first."""
        return self.made_for(ty, self.helper(copy_of, ty), [self.primals[index]])

    def _run(self) -> Any:
        dummies = [self.context.get_dummy_value(), self.context.get_dummy_value()]
        fields = self.fields()
        arguments = self.annotated(fields)
        with checked(self, fields):
            returned = call_of_rule(self, self.rule.compiled, [*dummies, *arguments], fields)
        self.others = self.typed(fields)
        return returned

    def shadow(self, argument: RuleArgument, value: Value) -> Any:
        """One shadow, or a tuple of them for a batch."""
        if argument.annotation.dval == argument.shadow_type:
            return super().shadow(argument, value)
        index = [a.name for a in self.arguments if a.activity == "duplicated"]
        each = [
            self.zero_shadow(argument, value)
            if argument.needs_scratch
            else self.without_owner(argument.shadow_type, lane[index.index(argument.name)])
            for lane in self.lanes
        ]
        return self.context.make_tuple(self.builder, argument.annotation.dval, each)

    def _keep(self, returned: Value, lanes: Sequence[int], *, first: bool) -> None:
        """Store the requested results of a run, and release the others."""
        ty = self.rule.compiled.signature.return_type
        context, builder = self.context, self.builder
        requested: list[tuple[str, types.Type, Any]] = []
        if first and self.rule.primal is not None:
            requested.append(("ret", *_at(builder, returned, ty, self.rule.primal)))
        if self.rule.request.result != "const":
            assert self.rule.tangent is not None
            tangent_type, tangent = _at(builder, returned, ty, self.rule.tangent)
            if self.rule.looped or len(lanes) == 1:
                requested.append((self.ret_shadows[lanes[0]], tangent_type, tangent))
            else:
                parts = cgutils.unpack_tuple(builder, tangent)
                items = zip(items_of(tangent_type), parts, strict=True)
                names = self.ret_shadows
                requested += [(name, *item) for name, item in zip(names, items, strict=True)]
        for _, value_type, value in requested:
            context.nrt.incref(builder, value_type, value)
        context.nrt.decref(builder, ty, returned)
        for name, value_type, value in requested:
            if self.return_type == types.none:
                continue
            # Released if a check or a later lane fails (F3).
            self.pending.append((value_type, value))
            check_apart(self, (value, value_type), self.others)
            self.store_result(name, value, value_type)
        if requested and requested[0][0] == "ret":
            (_, primal_type, primal), *requested = requested
            self.result = [(primal, primal_type)]
        for result in self.result:
            tangents = [(tangent, ty) for _, ty, tangent in requested]
            check_apart(self, result, tangents)
            for tangent in tangents:
                check_alike(self, result, tangent)


def _at(builder: Builder, value: Value, ty: types.Type, path: Sequence[int]) -> tuple[Any, Any]:
    for index in path:
        value, ty = builder.extract_value(value, index), items_of(ty)[index]
    return ty, value
